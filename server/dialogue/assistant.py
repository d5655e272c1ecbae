"""The flow assistant as the rest of the server sees it: load a folder, take turns, cancel."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from server.dialogue.commands import (
    INPUT_EMPTY,
    INPUT_TOO_LONG,
    CancelFlow,
    ChitChat,
    Command,
    Failure,
    HumanHandoff,
    KnowledgeAnswer,
    RepeatBotMessages,
    Restart,
    SessionStart,
    SetSlot,
    SkipQuestion,
    Source,
    StartFlow,
)
from server.dialogue.driver import Driver
from server.dialogue.engine import Engine
from server.dialogue.generate.situation import situation_of
from server.dialogue.loader import Project, load_project
from server.dialogue.mapper import TaskState, TaskStateMapper
from server.dialogue.payloads import parse_payload
from server.dialogue.plan import may_start
from server.dialogue.problems import AssistantInvalid, Problem, Reporter
from server.dialogue.sdk import OnChunk
from server.dialogue.seeding import Seeds, read_seeds
from server.dialogue.settings import AssistantSettings, Wiring, wire
from server.dialogue.skills import FlowSkill, skills_of
from server.dialogue.stack import top_user
from server.dialogue.state import DialogueState, StateCodec, TurnFacts, UnreadableState, resolves

logger = logging.getLogger("nonstick.dialogue")

DEFAULT_NAME = "Rasa Agent"
DEFAULT_VERSION = "1.0.0"
REPAIRED = "dialogue.state.repaired"
UNKNOWN_SKILL = "unknown_skill"
SKILL_NOT_AVAILABLE = "skill_not_available"
# A bot message without other members has no payload.
_WORDS_ONLY = frozenset({"key", "text"})

# Patterns that a caller may ask for by name, since the card advertises them too.
_PATTERN_SKILLS: dict[str, Command] = {
    "pattern_human_handoff": HumanHandoff(),
    "pattern_repeat_bot_messages": RepeatBotMessages(),
    "pattern_skip_question": SkipQuestion(),
    "pattern_chitchat": ChitChat(),
    "pattern_search": KnowledgeAnswer(),
    "pattern_restart": Restart(),
    "pattern_session_start": SessionStart(),
    "pattern_cancel_flow": CancelFlow(),
}


@dataclass(slots=True)
class TurnInput:
    """One message; `data` holds the content of its data parts. `skill` falls back to the metadata's."""

    text: str = ""
    data: Sequence[Mapping[str, Any]] = ()
    message_metadata: Mapping[str, Any] = field(default_factory=dict)
    request_metadata: Mapping[str, Any] = field(default_factory=dict)
    skill: str | None = None
    sender_id: str = ""


@dataclass(slots=True)
class TurnResult:
    """What a turn leaves behind.

    `texts` are the bot's words, `data` the structured state, `payloads` the buttons, images and custom content of
    messages that had more than words; `keys` names the response behind each message (None for an action's own words).
    """

    state_json: str
    task_state: TaskState
    texts: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    payloads: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()
    keys: tuple[str | None, ...] = ()


class Assistant:
    """One loaded assistant; holds no conversation, so any worker's copy can take any turn."""

    def __init__(
        self, project: Project, wiring: Wiring, settings: AssistantSettings, problems: tuple[Problem, ...] = ()
    ) -> None:
        self.project = project
        self.warnings = problems
        self.fingerprint = project.fingerprint
        assistant_id = project.config.get("assistant_id")
        self.name = str(assistant_id) if assistant_id else DEFAULT_NAME
        model = settings.model_name or project.config.get("model_id")
        self.version = str(model).removesuffix(".tar.gz") if model else DEFAULT_VERSION
        self._settings = settings
        self._wiring = wiring
        self._codec = StateCodec(project.domain, project.fingerprint, wiring.history_lines)
        self._mapper = TaskStateMapper(project.domain, wiring.repair)
        custom = wiring.actions.names
        self._engine = Engine(
            project.domain,
            project.flows,
            project.scopes,
            custom=custom,
            session_start="pattern_session_start" in project.replaced_patterns
            or "action_session_start" in custom | project.domain.actions,
            clarify_starts=settings.clarify_on_multiple_starts,
            rng=settings.rng if settings.random_responses else None,
        )
        self._driver = Driver(self._engine, wiring.actions)

    @classmethod
    def load(cls, path: Path | str, settings: AssistantSettings | None = None) -> Assistant:
        """Reads and checks a folder; raises AssistantInvalid with every problem found."""
        report = Reporter()
        settings = settings or AssistantSettings()
        project = load_project(Path(path), report)
        wiring = None if project is None else wire(project, settings, report)
        problems = tuple(report.found)
        if report.failed or project is None or wiring is None:
            raise AssistantInvalid(problems)
        return cls(project, wiring, settings, problems)

    @classmethod
    def check(cls, path: Path | str, settings: AssistantSettings | None = None) -> tuple[Problem, ...]:
        """Everything a load would complain about, warnings included."""
        try:
            return cls.load(path, settings).warnings
        except AssistantInvalid as error:
            return error.problems

    @property
    def repair(self) -> bool:
        return self._wiring.repair

    @property
    def flow_ids(self) -> tuple[str, ...]:
        """The assistant's own flows."""
        return tuple(flow.id for flow in self.project.flows.values() if not flow.is_pattern)

    @property
    def skills(self) -> tuple[FlowSkill, ...]:
        return skills_of(self.project.flows, self.project.examples, repair=self.repair)

    def with_repair(self, repair: bool) -> Assistant:
        """The same assistant with include_conversation_repair switched; generator and actions are shared."""
        return Assistant(self.project, replace(self._wiring, repair=repair), self._settings, self.warnings)

    async def aclose(self) -> None:
        """Closes the connections to models and action servers."""
        await self._wiring.generator.aclose()
        await self._wiring.actions.aclose()

    def stranger(self, state_json: str) -> str:
        """The fingerprint of the assistant that wrote a dialogue this one can't go on with; '' where it can."""
        if self._codec.wrote(state_json) or self.resolves(state_json):
            return ""
        return self._codec.writer(state_json)

    def resolves(self, state_json: str | None) -> bool:
        """True when this assistant can go on with a stored dialogue without repairing it."""
        if not state_json:
            return True
        try:
            state = self._codec.load(state_json)
        except UnreadableState:
            return False
        return resolves(state.stack, self.project.flows)

    async def turn(self, state_json: str | None, message: TurnInput, on_chunk: OnChunk | None = None) -> TurnResult:
        """One message in, one result out. Never raises for what users, orchestrators or actions do.

        When it is cancelled, the state it was given is still good: hand that one to `cancel`.
        """
        state = self._open(state_json)
        metadata = {**message.request_metadata, **message.message_metadata}
        skill = message.skill if message.skill is not None else metadata.get("skill")
        seeds = read_seeds(
            message.text,
            message.data,
            message.message_metadata,
            message.request_metadata,
            self.project.domain,
            self._wiring.allowlist,
        )
        wanted: str | None = None
        if skill is not None:
            refusal, wanted = self._wanted(state, skill, seeds)
            if refusal is not None:
                return self._refuse(state, state_json, refusal)
        text = seeds.text.strip() or None
        commands = await self._commands(state, text, seeds, wanted)
        self._engine.begin(state, commands, text=text)
        await self._driver.finish(state, message.sender_id, metadata, on_chunk)
        return self._result(state, self._mapper.state(state))

    def cancel(self, state_json: str | None) -> TurnResult:
        """The orchestrator cancels: flows on the stack are cancelled, slots restored, nothing is said."""
        state = self._open(state_json)
        if state.turn.repaired:
            state.stack.clear()
            cancelled, events = state.turn.cancelled, state.turn.events
            self._engine.cancel(state)
            state.turn.cancelled, state.turn.events = cancelled, events
        else:
            self._engine.cancel(state)
        return self._result(state, TaskState.CANCELED)

    # -- the parts of a turn -------------------------------------------------------------------------------------

    def _open(self, state_json: str | None) -> DialogueState:
        """The stored dialogue; one that does not fit this assistant is repaired, and that is said."""
        if not state_json:
            return self._codec.new()
        try:
            state = self._codec.load(state_json)
        except UnreadableState as error:
            logger.warning(REPAIRED, extra={"reason": str(error), "assistant": self.fingerprint})
            state = self._codec.new()
            state.began = True
            self._engine.repair(state)
            return state
        if not resolves(state.stack, self.project.flows):
            logger.warning(
                REPAIRED,
                extra={
                    "reason": "the flows changed",
                    "written_by": state.written_by,
                    "assistant": self.fingerprint,
                    "flows": [frame.flow for frame in state.stack],
                },
            )
            self._engine.repair(state)
        return state

    def _wanted(self, state: DialogueState, skill: Any, seeds: Seeds) -> tuple[str | None, str | None]:
        """(why the skill is refused, the skill to start); a dialogue that is busy goes on with what it does."""
        flow = self.project.flows.get(skill) if isinstance(skill, str) else None
        if flow is None:
            return UNKNOWN_SKILL, None
        if top_user(state.stack) is not None:
            return None, None
        if flow.is_pattern:
            return (None, flow.id) if flow.id in _PATTERN_SKILLS else (SKILL_NOT_AVAILABLE, None)
        if not may_start(flow, {**state.slots, **seeds.values}):
            return SKILL_NOT_AVAILABLE, None
        return None, flow.id

    async def _commands(
        self, state: DialogueState, text: str | None, seeds: Seeds, wanted: str | None
    ) -> list[Command]:
        commands: list[Command] = []
        limit = self._wiring.max_characters
        if wanted in _PATTERN_SKILLS:
            commands.append(_PATTERN_SKILLS[wanted])
        elif text is None:
            if wanted is not None:
                commands.append(StartFlow(wanted))
            elif not seeds.given:
                commands.append(Failure(INPUT_EMPTY, {}, clears=False))
        elif len(text) > limit:
            commands.append(Failure(INPUT_TOO_LONG, {"max_characters": limit}, clears=False))
        elif (payload := parse_payload(text)) is not None:
            commands.extend(payload)
        else:
            project = self.project
            situation = situation_of(state, seeds.values, project.domain, project.flows, project.scopes)
            if situation.asked is None or not situation.asked.forces:
                commands.extend(await self._wiring.generator.generate(situation, text, wanted))
        for name, value in seeds.values.items():
            commands.append(SetSlot(name, value, Source.ORCHESTRATOR))
        return commands

    def _refuse(self, state: DialogueState, state_json: str | None, reason: str) -> TurnResult:
        """The message never reached the dialogue, which stays as it was."""
        state.turn = TurnFacts(waiting=True, ran={"pattern_cannot_handle": {"reason": reason}})
        data = self._mapper.data(state, TaskState.REJECTED)
        data["reason"] = reason
        return TurnResult(state_json or self._codec.dump(self._codec.new()), TaskState.REJECTED, data=data)

    def _result(self, state: DialogueState, task_state: TaskState) -> TurnResult:
        facts = state.turn
        texts: list[str] = []
        payloads: list[Mapping[str, Any]] = []
        keys: list[str | None] = []
        for message in facts.messages:
            keys.append(message.get("key"))
            text = message.get("text")
            if text:
                texts.append(text)
                state.remember("bot", text)
            if not message.keys() <= _WORDS_ONLY:
                payloads.append({key: value for key, value in message.items() if key not in _WORDS_ONLY})
        if facts.messages:
            state.said = facts.messages
        return TurnResult(
            state_json=self._codec.dump(state),
            task_state=task_state,
            texts=tuple(texts),
            data=self._mapper.data(state, task_state),
            payloads=tuple(payloads),
            events=tuple(facts.events),
            keys=tuple(keys),
        )
