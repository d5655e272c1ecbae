"""What a custom action is written against: the usual SDK classes, so that existing actions run as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
EventType = Event
DomainDict = dict[str, Any]


class ActionExecutionRejection(Exception):
    """The action refuses to run."""

    def __init__(self, action_name: str, message: str | None = None) -> None:
        super().__init__(message or f"Custom action '{action_name}' rejected execution.")
        self.action_name = action_name


class Action:
    """One custom action; `run` may be async or not."""

    def name(self) -> str:
        raise NotImplementedError("An action must say its name.")

    def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> Any:
        raise NotImplementedError("An action must implement run().")


@dataclass(slots=True)
class Tracker:
    """What an action may know about the dialogue; changing it changes nothing."""

    sender_id: str
    slots: dict[str, Any]
    latest_message: dict[str, Any]
    events: list[Event]
    stack: list[dict[str, Any]]
    latest_action_name: str | None = None
    paused: bool = False
    followup_action: str | None = None
    active_loop: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    def get_slot(self, key: str) -> Any:
        return self.slots.get(key)

    def current_slot_values(self) -> dict[str, Any]:
        return self.slots

    def get_latest_input_channel(self) -> str:
        return "a2a"

    def get_intent_of_latest_message(self, skip_fallback_intent: bool = True) -> str | None:
        return (self.latest_message.get("intent") or {}).get("name")

    def current_state(self) -> dict[str, Any]:
        """The form in which a tracker travels to an action server."""
        return {
            "sender_id": self.sender_id,
            "slots": self.slots,
            "latest_message": self.latest_message,
            "events": self.events,
            "paused": self.paused,
            "followup_action": self.followup_action,
            "active_loop": self.active_loop or {},
            "latest_action_name": self.latest_action_name,
            "stack": self.stack,
            "latest_input_channel": self.get_latest_input_channel(),
            "latest_event_time": None,
            "user_id": None,
        }


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed message; `last` closes its stream."""

    stream: int
    text: str = ""
    payload: dict[str, Any] | None = None
    last: bool = False


OnChunk = Callable[[Chunk], Awaitable[None]]


class CollectingDispatcher:
    """Collects what an action says; streamed chunks go out at once and end up as one message."""

    def __init__(self, on_chunk: OnChunk | None = None, first_stream: int = 1) -> None:
        self.messages: list[dict[str, Any]] = []
        self._on_chunk = on_chunk
        self._stream = first_stream - 1
        self._open: list[str] | None = None
        self._payload: dict[str, Any] = {}
        self._cancelled = False

    @property
    def is_streaming_cancelled(self) -> bool:
        return self._cancelled

    @property
    def is_streaming(self) -> bool:
        return self._open is not None

    def utter_message(
        self,
        text: str | None = None,
        image: str | None = None,
        json_message: Any = None,
        template: str | None = None,
        response: str | None = None,
        attachment: Any = None,
        buttons: list[dict[str, Any]] | None = None,
        elements: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Says a text or a payload, or a response of the domain with `kwargs` as its variables."""
        extras = _content(None, image, json_message, attachment, buttons, elements)
        key = response or template
        if key is not None:
            if text is not None:
                extras["text"] = text
            self.messages.append({"response": key, "variables": kwargs, "extras": extras})
            return
        if text is not None:
            extras = {"text": text, **extras}
        if extras:
            self.messages.append(extras)

    async def stream_start(self) -> None:
        """Opens a stream; one that is still open is closed first."""
        await self.stream_end()
        self._stream += 1
        self._open = []
        self._payload = {}
        self._cancelled = False

    async def stream_chunk(
        self,
        text: str | None = None,
        image: str | None = None,
        json_message: Any = None,
        attachment: Any = None,
        buttons: list[dict[str, Any]] | None = None,
        elements: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Sends a piece at once; without a stream it opens one."""
        if "response" in kwargs or "template" in kwargs:
            raise ValueError("A chunk can't name a response; use utter_message for that.")
        if self._cancelled:
            return
        if self._open is None:
            await self.stream_start()
        assert self._open is not None
        payload = _content(None, image, json_message, attachment, buttons, elements)
        self._payload.update(payload)
        if text:
            self._open.append(text)
        if self._on_chunk is not None and (text or payload):
            await self._on_chunk(Chunk(self._stream, text or "", payload or None))

    async def stream_end(self) -> None:
        """Closes the stream: what was streamed is now one message."""
        if self._open is None:
            return
        said, self._open = "".join(self._open), None
        if said or self._payload:
            self.messages.append({**({"text": said} if said else {}), **self._payload})
        if self._on_chunk is not None:
            await self._on_chunk(Chunk(self._stream, last=True))

    def cancel_stream(self) -> None:
        """Chunks are dropped from now on; what was said stays said."""
        self._cancelled = True


def SlotSet(key: str, value: Any = None, timestamp: float | None = None) -> Event:
    return {"event": "slot", "timestamp": timestamp, "name": key, "value": value}


def AllSlotsReset(timestamp: float | None = None) -> Event:
    return {"event": "reset_slots", "timestamp": timestamp}


def FollowupAction(name: str, timestamp: float | None = None) -> Event:
    return {"event": "followup", "timestamp": timestamp, "name": name}


def BotUttered(
    text: str | None = None,
    data: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    timestamp: float | None = None,
) -> Event:
    return {"event": "bot", "timestamp": timestamp, "text": text, "data": data, "metadata": metadata or {}}


def SessionEnded(timestamp: float | None = None) -> Event:
    return {"event": "session_ended", "timestamp": timestamp}


def SessionStarted(timestamp: float | None = None) -> Event:
    return {"event": "session_started", "timestamp": timestamp}


def Restarted(timestamp: float | None = None) -> Event:
    return {"event": "restart", "timestamp": timestamp}


def ConversationPaused(timestamp: float | None = None) -> Event:
    return {"event": "pause", "timestamp": timestamp}


def ConversationResumed(timestamp: float | None = None) -> Event:
    return {"event": "resume", "timestamp": timestamp}


def ActionExecuted(action_name: str, timestamp: float | None = None) -> Event:
    return {"event": "action", "name": action_name, "timestamp": timestamp}


def _content(
    text: str | None,
    image: str | None,
    json_message: Any,
    attachment: Any,
    buttons: list[dict[str, Any]] | None,
    elements: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    content = {
        "text": text,
        "image": image,
        "custom": json_message,
        "attachment": attachment,
        "buttons": buttons,
        "elements": elements,
    }
    return {key: value for key, value in content.items() if value}
