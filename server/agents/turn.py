"""One message being processed, as its agent sees it."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    JsonObject,
    Message,
    Part,
    Role,
    State,
    Status,
    StatusUpdate,
    Task,
)
from stores.keys import derived_uuid, new_uuid

Emit = Callable[[Event], Awaitable[None]]


class Turn:
    """The message, the context's session, and the ways to show progress.

    `session` is a plain JSON object, loaded with the turn and saved when it ends well; an agent that has a form of its
    own uses `stored` and `store` instead. `fence` and `attempt` are for effects outside: a later attempt of the same
    turn has a greater fence. `awaited`: the caller waits for the whole answer (a blocking `message/send`) and sees no
    progress.
    """

    def __init__(
        self,
        *,
        task: Task,
        message: Message | None,
        metadata: Mapping[str, Any] | None,
        stored: str,
        caller: str,
        fence: int,
        attempt: int,
        emit: Emit,
        awaited: bool = False,
    ) -> None:
        self.task = task
        self.message = message
        self.stored = stored
        self._session: JsonObject | None = None
        self._own: str | None = None
        self.caller = caller
        self.fence = fence
        self.attempt = attempt
        self.awaited = awaited
        own = message.metadata if message else None
        self.request_metadata: JsonObject = dict(metadata or {})
        self.metadata: JsonObject = {**self.request_metadata, **(own or {})}
        self._emit = emit
        self._artifacts: set[str] = set()
        self._stream_id = ""
        self._streams = 0

    @property
    def session(self) -> JsonObject:
        """What this context's earlier turns left, to be changed in place."""
        if self._session is None:
            self._session = json.loads(self.stored) if self.stored else {}
        return self._session

    def store(self, text: str) -> None:
        """Saves a text of the agent's own instead of `session`; the next turn finds it in `stored`."""
        self._own = text

    def session_text(self) -> str | None:
        """What is to be saved, None when nothing changed. Raises ValueError when the session is not plain JSON."""
        if self._own is not None:
            return None if self._own == self.stored else self._own
        if self._session is None:
            return None
        try:
            text = json.dumps(self._session, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            text.encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"the session is not plain JSON: {error}") from error
        return None if text == (self.stored or "{}") else text

    @property
    def task_id(self) -> str:
        return self.task.id

    @property
    def context_id(self) -> str:
        return self.task.context_id

    @property
    def message_id(self) -> str:
        return self.message.message_id if self.message else ""

    @property
    def text(self) -> str:
        """The message's text parts, one line each."""
        return self.message.text if self.message else ""

    @property
    def data(self) -> JsonObject:
        """The message's data parts that are objects, merged; later ones win."""
        merged: JsonObject = {}
        for part in self.message.parts if self.message else ():
            if part.kind == "data" and isinstance(part.value, dict):
                merged.update(part.value)
        return merged

    @property
    def skill(self) -> str | None:
        """The skill the caller wishes for (`metadata.skill`)."""
        wish = self.metadata.get("skill")
        return wish if isinstance(wish, str) and wish else None

    async def working(
        self,
        text: str | None = None,
        *,
        data: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Shows that the work goes on."""
        parts = [] if text is None else [Part("text", text)]
        if data is not None:
            parts.append(Part("data", dict(data)))
        message = self._said(tuple(parts)) if parts else None
        status = Status(State.WORKING, 0, message)
        await self._emit(StatusUpdate(self.task_id, self.context_id, status, dict(metadata) if metadata else None))

    async def artifact(
        self,
        text: str | None = None,
        *,
        data: Any = None,
        raw: bytes | None = None,
        url: str | None = None,
        filename: str | None = None,
        media_type: str | None = None,
        artifact_id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        append: bool | None = None,
        last_chunk: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Shows a piece of the result: text, data, or a file by its bytes or its URL.

        Pieces without an `artifact_id` belong to one artifact, up to the one with `last_chunk`. The first piece of an
        artifact begins it, the later ones are appended, unless `append` says otherwise.
        """
        part = _part(text, data, raw, url, filename, media_type)
        if artifact_id is None:
            self._stream_id = self._stream_id or self._next_stream_id()
            artifact_id = self._stream_id
            if last_chunk:
                self._stream_id = ""
        if append is None or (append and artifact_id not in self._artifacts):
            append = artifact_id in self._artifacts
        self._artifacts.add(artifact_id)
        artifact = Artifact(artifact_id, (part,), name, description, dict(metadata) if metadata else None)
        await self._emit(ArtifactUpdate(self.task_id, self.context_id, artifact, append, last_chunk))

    def _next_stream_id(self) -> str:
        """The same in each attempt of a turn, so that what a later one begins takes the place of what an earlier one
        left unfinished."""
        self._streams += 1
        return derived_uuid(f"{self.task_id} {self.message_id} {self._streams}")

    def _said(self, parts: tuple[Part, ...]) -> Message:
        return Message(new_uuid(), Role.AGENT, parts, self.context_id, self.task_id)


def _part(
    text: str | None, data: Any, raw: bytes | None, url: str | None, filename: str | None, media_type: str | None
) -> Part:
    given = [kind for kind, value in (("text", text), ("data", data), ("raw", raw), ("url", url)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"an artifact piece is one of text, data, raw or url; got {given or 'none of them'}")
    if raw is not None:
        return Part("raw", base64.b64encode(raw).decode(), filename, media_type)
    if url is not None:
        return Part("url", url, filename, media_type)
    if data is not None:
        return Part("data", data, filename, media_type)
    return Part("text", text, filename, media_type)
