"""Walks a turn through the engine, running its actions in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.dialogue.actions.runner import ActionRunner, Call
from server.dialogue.engine import Engine, RunAction
from server.dialogue.sdk import Chunk, OnChunk, Tracker
from server.dialogue.state import DialogueState


class Driver:
    """The only place where the dialogue waits for something outside."""

    def __init__(self, engine: Engine, actions: ActionRunner) -> None:
        self._engine = engine
        self._actions = actions

    async def finish(
        self, state: DialogueState, sender_id: str, metadata: Mapping[str, Any], on_chunk: OnChunk | None
    ) -> None:
        """Runs until the bot listens."""
        streams = 0

        async def count(chunk: Chunk) -> None:
            nonlocal streams
            streams = chunk.stream
            if on_chunk is not None:
                await on_chunk(chunk)

        while isinstance(effect := self._engine.step(state), RunAction):
            tracker = self._tracker(state, sender_id, metadata)
            outcome = await self._actions.run(Call(effect.name, tracker, count, streams + 1))
            self._engine.resume(state, outcome)

    def _tracker(self, state: DialogueState, sender_id: str, metadata: Mapping[str, Any]) -> Tracker:
        """A view made for one action: it may keep or change it without touching the dialogue."""
        text = state.turn.text
        slots: dict[str, Any] = dict.fromkeys(self._engine.domain.slots)
        slots.update(state.slots)
        return Tracker(
            sender_id=sender_id,
            slots=slots,
            latest_message={
                "text": text,
                "intent": {"name": None, "confidence": 0.0},
                "entities": [],
                "metadata": dict(metadata),
                "commands": [],
            },
            events=[{"event": who, "text": line} for who, line in state.history] + list(state.turn.events),
            stack=[
                {
                    "frame_id": f"f{frame.id}",
                    "flow_id": frame.flow,
                    "step_id": frame.step,
                    "frame_type": frame.kind,
                    "type": "flow" if frame.is_user else "pattern",
                }
                for frame in state.stack
            ],
            latest_action_name=state.turn.latest_action or None,
            metadata=dict(metadata),
        )
