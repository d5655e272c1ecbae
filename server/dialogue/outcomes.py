"""What a custom action did to the dialogue: its messages are said, its events are taken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from server.dialogue.slots import InvalidValue, SlotType, coerce, is_storable
from server.dialogue.stage import Broken, Stage
from server.dialogue.state import DialogueState


@dataclass(slots=True)
class ActionResult:
    """What a custom action returned; a message either has content or names a `response` to say."""

    events: Sequence[dict[str, Any]] = ()
    messages: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class ActionError:
    """A custom action failed, was refused or is not there."""

    error_type: str
    info: dict[str, Any]


def take_result(stage: Stage, state: DialogueState, result: ActionResult, action: str) -> None:
    """Applies a result; raises Broken when it can't be kept."""
    for message in result.messages:
        _relay(stage, state, message)
    for event in result.events:
        _take(stage, state, event, action)


def _relay(stage: Stage, state: DialogueState, message: dict[str, Any]) -> None:
    key = message.get("response")
    if key is None:
        if not is_storable(message):
            raise Broken("action_failed", reason="a message is not representable as JSON")
        if message.get("text") is not None:
            message = {**message, "text": str(message["text"])}
        state.turn.messages.append(message)
        return
    if not isinstance(key, str):
        raise Broken("action_failed", reason="a message names no response")
    extras = message.get("extras")
    if extras and not is_storable(extras):
        raise Broken("action_failed", reason="a message is not representable as JSON")
    frame = state.stack[-1] if state.stack else None
    stage.say(state, key, frame.context if frame else {}, message.get("variables", {}), extras)


def _take(stage: Stage, state: DialogueState, event: dict[str, Any], action: str) -> None:
    facts = state.turn
    match event.get("event"):
        case "slot":
            name, value = event.get("name"), event.get("value")
            slot = stage.domain.slots.get(name) if isinstance(name, str) else None
            if slot is None:
                facts.events.append({"event": "ignored", "reason": "unknown slot", "name": str(name)})
                return
            if not is_storable(value):
                raise Broken("action_failed", action=action, slot=slot.name, reason="not representable as JSON")
            if slot.type is not SlotType.ANY:
                with suppress(InvalidValue):  # an action is trusted with what it stores
                    value = coerce(slot, value)
            stage.write(state, slot.name, value)
        case "reset_slots":
            state.slots = dict(stage.domain.initial)
            facts.events.append({"event": "reset_slots"})
        case "bot":
            data = event.get("data") if isinstance(event.get("data"), dict) else {}
            _relay(stage, state, {"text": event.get("text"), **{k: v for k, v in (data or {}).items() if v}})
        case "followup":
            if isinstance(event.get("name"), str):
                facts.queue.append(event["name"])
        case "restart":
            stage.restart(state, None)
        case "session_ended":
            stage.cancel_all(state)
            state.began = False
            facts.closed = True
            facts.events.append({"event": "session_ended"})
        case "pause" | "resume":
            facts.events.append({"event": event["event"]})
        case other:
            facts.events.append({"event": "ignored", "reason": "unknown event", "name": str(other)})
