"""The flow assistant as an agent: its dialogue state is the session, its task states are the outcomes."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from server.agents.base import Agent
from server.agents.outcome import Outcome, failed
from server.agents.turn import Turn
from server.dialogue.assistant import DEFAULT_NAME, Assistant, TurnInput, TurnResult
from server.dialogue.mapper import TaskState
from server.dialogue.problems import Reporter
from server.dialogue.sdk import Chunk, OnChunk
from server.dialogue.settings import AssistantSettings
from server.dialogue.yamlfiles import read_yaml
from server.protocol.model import JsonObject, Part, Skill, State

log = logging.getLogger(__name__)

NOT_READY = "Agent is not ready to handle messages."
# A worker waits so long for its assistant before it takes requests without one. A supervisor that sees no sign of life
# for a minute would kill it.
LOAD_WAIT_SECONDS = 20.0

_STATES = {state: State(state.value) for state in TaskState}


class AssistantAgent(Agent):
    """Serves the assistant in a folder. Until it is loaded, and when it can't be, turns end as failed."""

    # Each of its turns is a task of its own, and a new turn answers the question of the one before.
    supersedes: ClassVar[bool] = True

    ready = False

    def __init__(self, folder: Path, settings: AssistantSettings) -> None:
        self.folder = folder
        # For the card that is shown before the assistant is loaded, or when it can't be.
        self.name = assistant_id(folder) or DEFAULT_NAME
        self._settings = settings
        self._serving: _Serving | None = None
        self._loading: asyncio.Task[None] | None = None
        self._loaded_at = ""
        self._error = ""

    @property
    def identity(self) -> str:
        """What keeps this assistant apart from others on the same store, also when it can't be loaded."""
        return assistant_id(self.folder) or self.folder.resolve().name

    async def start(self) -> None:
        self._loading = asyncio.create_task(self._load(), name="load assistant")
        # Waited for: a worker that takes turns before it can answer them would fail them.
        await asyncio.wait({self._loading}, timeout=LOAD_WAIT_SECONDS)

    async def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})
        if self._serving is not None:
            await self._serving.assistant.aclose()

    async def reload(self) -> None:
        """Loads the folder again. Card, engine and version change together; a broken folder leaves the old one."""
        assistant = await self._read()
        former = self._serving
        self._adopt(assistant)
        if former is not None:
            await former.retire()

    async def _load(self) -> None:
        try:
            self._adopt(await self._read())
        except Exception as error:
            self._error = str(error)
            log.error("a2a_server.agent.load_failed folder=%s error=%s", self.folder, error)

    async def _read(self) -> Assistant:
        return await asyncio.to_thread(Assistant.load, self.folder, self._settings)

    def _adopt(self, assistant: Assistant) -> None:
        self._serving = _Serving(assistant)
        self._loaded_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._error = ""
        self.name = assistant.name
        self.version = assistant.version
        self.fingerprint = assistant.fingerprint
        self.skills = tuple(Skill(s.id, s.name, s.description, s.tags, s.examples) for s in assistant.skills)
        self.ready = True
        log.info("a2a_server.agent.loaded assistant=%s flows=%d", assistant.name, len(assistant.flow_ids))

    def about(self) -> JsonObject:
        if self._serving is None:
            return {
                "model_file": self.folder.resolve().name,
                "model_id": None,
                "flows": [],
                "loaded_at": None,
                "error": self._error or "The assistant is being loaded.",
            }
        assistant = self._serving.assistant
        return {
            "model_file": self.folder.resolve().name,
            "model_id": assistant.fingerprint,
            "flows": list(assistant.flow_ids),
            "loaded_at": self._loaded_at,
        }

    def elsewhere(self, stored: str) -> str:
        return self._serving.assistant.stranger(stored) if stored and self._serving is not None else ""

    async def run(self, turn: Turn) -> Outcome:
        if self._serving is None:
            log.error(
                "a2a_server.rasa_a2a_agent_executor.execute.agent_not_ready task=%s error=%s", turn.task_id, self._error
            )
            return failed(NOT_READY, data={"state": "failed"}, error_type="agent_not_ready", error_info=NOT_READY)
        # Who waits for the whole answer finds every chunk in its text; as artifacts they would come twice.
        on_chunk = None if turn.awaited else _streamer(turn)
        result = await self._serving.turn(turn.stored or None, _asked(turn), on_chunk)
        turn.store(result.state_json)
        return _outcome(result)

    async def on_cancel(self, turn: Turn) -> Outcome | None:
        if self._serving is None:
            return None
        result = self._serving.assistant.cancel(turn.stored or None)
        turn.store(result.state_json)
        return _outcome(result)


class _Serving:
    """A loaded assistant and the turns it still has: its connections are closed after the last of them."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self._turns = 0
        self._retired = False

    async def turn(self, stored: str | None, message: TurnInput, on_chunk: OnChunk | None) -> TurnResult:
        self._turns += 1
        try:
            return await self.assistant.turn(stored, message, on_chunk)
        finally:
            self._turns -= 1
            if self._retired:
                await self._close_if_over()

    async def retire(self) -> None:
        self._retired = True
        await self._close_if_over()

    async def _close_if_over(self) -> None:
        if not self._turns:
            await self.assistant.aclose()


def assistant_id(folder: Path) -> str | None:
    """The name that config.yml gives the assistant; None where it gives none or can't be read."""
    for name in ("config.yml", "config.yaml"):
        path = folder / name
        if path.is_file():
            config = read_yaml(path, folder, Reporter())
            found = config.get("assistant_id") if config else None
            return str(found) if found else None
    return None


def _asked(turn: Turn) -> TurnInput:
    message = turn.message
    parts = message.parts if message else ()
    return TurnInput(
        text=turn.text,
        data=[part.value for part in parts if part.kind == "data" and isinstance(part.value, dict)],
        message_metadata=(message.metadata if message else None) or {},
        request_metadata=turn.request_metadata,
        skill=turn.skill,
        sender_id=turn.context_id,
    )


def _streamer(turn: Turn) -> OnChunk:
    """Chunks of a streaming action as artifact updates: one artifact per stream."""

    async def on_chunk(chunk: Chunk) -> None:
        piece: dict[str, Any] = {"artifact_id": f"stream-{chunk.stream}", "last_chunk": chunk.last}
        if chunk.payload:
            await turn.artifact(data=chunk.payload, **{**piece, "last_chunk": chunk.last and not chunk.text})
        if chunk.text or not chunk.payload:
            await turn.artifact(chunk.text, **piece)

    return on_chunk


def _outcome(result: TurnResult) -> Outcome:
    parts: list[Part] = []
    if result.texts:
        parts.append(Part("text", "\n".join(result.texts)))
    parts.append(Part("data", result.data))
    for payload in result.payloads:
        parts.append(Part("data", payload))
    return Outcome(_STATES[result.task_state], tuple(parts))
