"""Judges a turn's commands against the stack as it is: what takes effect, what is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from server.dialogue.commands import (
    CancelFlow,
    CannotHandle,
    ChitChat,
    Clarify,
    Command,
    Failure,
    HumanHandoff,
    KnowledgeAnswer,
    RepeatBotMessages,
    Restart,
    SessionEnd,
    SessionStart,
    SetSlot,
    SkipQuestion,
    Source,
    StartFlow,
    TriggerIntent,
)
from server.dialogue.domain import Domain
from server.dialogue.flows import Flow, Scope, Step
from server.dialogue.slots import InvalidValue, Slot, coerce
from server.dialogue.stack import active_root, asked_step, pending_step, top_user
from server.dialogue.state import DialogueState, Frame

CONTINUE = "continue_conversation"
RESUME = "continue_interrupted_flow_confirmation"

_PATTERNS: dict[type, str] = {
    ChitChat: "pattern_chitchat",
    KnowledgeAnswer: "pattern_search",
    HumanHandoff: "pattern_human_handoff",
    SkipQuestion: "pattern_skip_question",
    RepeatBotMessages: "pattern_repeat_bot_messages",
    Restart: "pattern_restart",
    SessionStart: "pattern_session_start",
}


@dataclass(slots=True)
class Plan:
    """The commands that take effect; `pushes` holds (flow or pattern, context) in the order they should run."""

    fills: dict[str, Any] = field(default_factory=dict)
    corrections: dict[str, Any] = field(default_factory=dict)
    refused: list[tuple[Slot, Any]] = field(default_factory=list)  # values the user gave that can't be stored
    pushes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    cancels: bool = False
    drops_repair: bool = False  # repair questions on top of the stack are answered by doing something else
    drops_completed: bool = False  # only "anything else?" is
    ends_session: bool = False
    failure: Failure | None = None


def make_plan(
    state: DialogueState,
    commands: Sequence[Command],
    domain: Domain,
    flows: dict[str, Flow],
    scopes: dict[str, Scope],
    *,
    clarify_starts: bool = False,
) -> Plan:
    return _Planner(state, commands, domain, flows, scopes, clarify_starts).plan()


def may_start(flow: Flow | None, slots: dict[str, Any]) -> bool:
    """A user flow whose guard holds."""
    return flow is not None and not flow.is_pattern and (flow.guard is None or flow.guard.holds(slots, {}))


class _Planner:
    def __init__(
        self,
        state: DialogueState,
        commands: Sequence[Command],
        domain: Domain,
        flows: dict[str, Flow],
        scopes: dict[str, Scope],
        clarify_starts: bool,
    ) -> None:
        self._state = state
        self._commands = commands
        self._domain = domain
        self._flows = flows
        self._clarify_starts = clarify_starts
        self._asked: Step | None = asked_step(state, flows)
        self._active: Frame | None = active_root(state.stack)
        self._scope: Scope | None = scopes[self._active.flow] if self._active else None
        self._scopes = scopes
        self._top = state.stack[-1].flow if state.stack else ""
        self._result = Plan()
        self._usable = False  # something of what the user said takes effect
        self._answered = False  # an orchestrator's value answers the question
        self._seeded = False
        self._resumes = False
        self._cannot: CannotHandle | None = None
        self._started: list[Scope] = []

    def plan(self) -> Plan:
        commands = self._forced(self._commands)
        self._choose_starts(commands)
        for command in commands:
            if isinstance(command, SetSlot) and command.source is not Source.ORCHESTRATOR:
                self._user_slot(command)
        for command in commands:
            if isinstance(command, SetSlot) and command.source is Source.ORCHESTRATOR:
                self._seeded_slot(command)
        corrected = False
        for command in commands:
            if isinstance(command, SetSlot):
                # one pattern confirms all corrections, at the place of the first
                if not corrected and command.slot in self._result.corrections:
                    corrected = True
                    self._push("pattern_correction", {})
            else:
                self._other(command)
        self._resume_if_answered()
        self._fall_back()
        return self._result

    def _forced(self, commands: Sequence[Command]) -> Sequence[Command]:
        """A question that takes the message as it is lets no other command through."""
        asked, text = self._asked, self._state.turn.text
        if asked is None or not asked.forces or not text:
            return commands
        kept = [
            c
            for c in commands
            if isinstance(c, Failure)
            or (isinstance(c, SetSlot) and (c.source is Source.ORCHESTRATOR or c.slot == asked.target))
        ]
        if not any(isinstance(c, SetSlot) and c.source is not Source.ORCHESTRATOR for c in kept):
            kept.insert(0, SetSlot(asked.target, text))
        return kept

    def _choose_starts(self, commands: Sequence[Command]) -> None:
        starts = [command for command in commands if isinstance(command, (StartFlow, TriggerIntent))]
        if not starts:
            return
        running = {frame.flow for frame in self._state.stack if frame.is_user}
        slots = self._state.slots
        seeds = {c.slot: c.value for c in commands if isinstance(c, SetSlot) and c.source is Source.ORCHESTRATOR}
        visible = {**slots, **seeds} if seeds else slots
        for command in starts:
            if isinstance(command, TriggerIntent):
                wanted = [flow.id for flow in self._flows.values() if command.intent in flow.intents]
                guarded = False
            else:
                wanted, guarded = [command.flow], command.guarded
            for flow_id in wanted:
                flow = self._flows.get(flow_id)
                if flow is None or flow.is_pattern or flow_id in self._result.starts:
                    continue
                if flow_id in running:
                    if self._top == "pattern_continue_interrupted" and self._active and self._active.flow == flow_id:
                        self._resumes = True
                    continue
                if not guarded or may_start(flow, visible):
                    self._result.starts.append(flow_id)
                    self._started.append(self._scopes[flow_id])
        if self._clarify_starts and len(self._result.starts) > 1 and self._active is None:
            options, self._result.starts, self._started = tuple(self._result.starts), [], []
            self._other(Clarify(options))
        self._usable = self._usable or bool(self._result.starts)

    def _user_slot(self, command: SetSlot) -> None:
        slot = self._domain.slots.get(command.slot)
        if slot is None or not self._permitted(slot, command):
            return
        asked = self._asked is not None and self._asked.target == slot.name
        current = self._state.slots.get(slot.name)
        corrects = not asked and current is not None and self._scope is not None and slot.name in self._scope.slots
        try:
            value = coerce(slot, command.value)
        except InvalidValue:
            if asked or corrects:
                self._result.refused.append((slot, command.value))
            return
        self._usable = True
        if value == current and type(value) is type(current):
            return
        if corrects:
            self._result.corrections[slot.name] = value
        else:
            self._result.fills[slot.name] = value

    def _permitted(self, slot: Slot, command: SetSlot) -> bool:
        if self._asked is not None and self._asked.target == slot.name:
            # an answer in words can't fill what only actions and buttons may
            return not slot.controlled or command.source is Source.BUTTON
        if slot.builtin:
            return False
        if command.source is Source.BUTTON and self._was_offered():
            return True
        if slot.controlled:
            return False
        if self._scope is not None and slot.name in self._scope.slots:
            if slot.name in self._scope.asked_first:
                return self._state.slots.get(slot.name) is not None
            return True
        return any(slot.name in scope.slots and slot.name not in scope.asked_first for scope in self._started)

    def _was_offered(self) -> bool:
        """The message is the payload of a button of the last turn."""
        text = self._state.turn.text
        return any(button["payload"] == text for said in self._state.said for button in said.get("buttons", ()))

    def _seeded_slot(self, command: SetSlot) -> None:
        name = command.slot
        slot = self._domain.slots.get(name)
        if slot is None or slot.builtin:
            return
        self._seeded = True
        if name in self._result.fills or name in self._result.corrections:
            return  # the user's own words win
        current = self._state.slots.get(name)
        if self._asked is not None and self._asked.target == name and command.value is not None:
            self._answered = True
            self._result.fills[name] = command.value
            self._result.refused = [(other, value) for other, value in self._result.refused if other.name != name]
            return
        if command.value == current:
            return
        if current is not None and self._scope is not None and name in self._scope.collects:
            self._result.corrections[name] = command.value
        else:
            self._result.fills[name] = command.value

    def _other(self, command: Command) -> None:
        match command:
            case StartFlow(flow=flow_id):
                if flow_id in self._result.starts:
                    self._push(flow_id, {})
                    self._result.drops_repair = True
            case TriggerIntent(intent=intent):
                for flow_id in self._result.starts:
                    if intent in self._flows[flow_id].intents:
                        self._push(flow_id, {})
                        self._result.drops_repair = True
            case CancelFlow():
                self._cancel()
            case Clarify(flows=options):
                self._clarify(options)
            case CannotHandle():
                self._cannot = self._cannot or command
            case Failure():
                self._usable = True
                self._result.failure = command
            case SessionEnd():
                self._usable = self._result.ends_session = True
            case SetSlot():
                pass
            case _:
                self._usable = True
                self._push(_PATTERNS[type(command)], {})

    def _cancel(self) -> None:
        if self._active is not None:
            if not self._result.cancels:
                self._result.cancels = self._result.drops_repair = self._usable = True
                self._push("pattern_cancel_flow", {})
        elif self._asked is not None and self._asked.target == CONTINUE:
            self._usable = True
            self._result.fills.setdefault(CONTINUE, False)

    def _clarify(self, options: tuple[str, ...]) -> None:
        known = [option for option in dict.fromkeys(options) if may_start(self._flows.get(option), self._state.slots)]
        limit = int(self._state.slots.get("max_clarification_options") or 3)
        self._usable = self._result.drops_completed = True
        self._push("pattern_clarification", {"options": known[: max(limit, 1)]})

    def _resume_if_answered(self) -> None:
        """An answer to the interrupted flow's own question means that it goes on."""
        if self._top != "pattern_continue_interrupted" or RESUME in self._result.fills:
            return
        frame = top_user(self._state.stack)
        pending = pending_step(frame, self._flows) if frame else None
        answers = pending is not None and self._result.fills.get(pending.target) is not None
        if self._resumes or (answers and (self._usable or self._state.turn.text is None)):
            self._usable = True
            self._result.fills[RESUME] = True

    def _fall_back(self) -> None:
        if self._usable or self._answered or self._result.refused or self._state.turn.repaired:
            return
        if self._state.turn.text is None and self._seeded:
            return
        self._result.drops_completed = True
        self._push("pattern_cannot_handle", {"reason": self._cannot.reason if self._cannot else None})

    def _push(self, flow_id: str, context: dict[str, Any]) -> None:
        if (flow_id, context) not in self._result.pushes:
            self._result.pushes.append((flow_id, context))
