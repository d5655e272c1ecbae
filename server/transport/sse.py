"""Server-sent events: frames, keep-alives, resume ids, and an end that clients can tell from a broken connection."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Send

from server.protocol.errors import A2AError, InternalFault, Unavailable
from server.protocol.text import encode
from server.transport.answer import SOON
from server.turns import cursor as cursors
from server.turns.bell import Bell
from server.turns.watch import Stream, Streamed

log = logging.getLogger(__name__)

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY_STREAMS_S = 1
# Frames that wait for a slow reader; the events behind them wait in the log.
MOST_READY = 64
KEEP_ALIVE = b": keep-alive\n\n"
# Sent when this worker goes: the work goes on, and any other worker continues the stream.
RESUME_HINT = b": this worker is closing; subscribe again with Last-Event-ID to go on without a gap\n\n"

# Escapes every character outside ASCII: some clients split lines at U+2028, U+2029 and U+0085 too.
_ASCII = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Framing:
    """How one stream is written. `render` makes the JSON of an item, `fail` that of an error; `ids` adds `id:` lines,
    `named_errors` marks errors with `event: error`."""

    render: Callable[[Streamed], Any]
    fail: Callable[[A2AError], Any]
    ids: bool
    named_errors: bool

    def item(self, streamed: Streamed) -> bytes:
        shown = self.render(streamed)
        data = encode(shown)
        if not data.isascii():
            data = _ASCII.encode(shown).encode()
        if self.ids:
            return b"id: %b\ndata: %b\n\n" % (cursors.render(streamed.cursor).encode(), data)
        return b"data: %b\n\n" % data

    def error(self, error: A2AError) -> bytes:
        name = "event: error\n" if self.named_errors else ""
        return f"{name}data: {_ASCII.encode(self.fail(error))}\n\n".encode()


class EventStreams:
    """Sends streams for one worker, and closes them all when it goes."""

    def __init__(self, keepalive_s: float, most: int) -> None:
        self._keepalive_s = keepalive_s
        self._most = most
        self._closing = False
        self._sending: set[Frames] = set()
        self.open = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Room for one more stream, taken before its message is accepted: a refusal afterwards would come too late."""
        if self.open >= self._most:
            log.warning("a2a_server.http.stream_limit open=%d", self.open)
            message = f"This worker holds {self._most} streams already (max_streams); try again, another may have room."
            raise Unavailable("STREAM_LIMIT", message, RETRY_STREAMS_S)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def close(self) -> None:
        """Ends every stream after a complete event, with the hint where to go on."""
        self._closing = True
        for frames in self._sending:
            frames.news.ring()

    async def begin(self, items: Stream, framing: Framing) -> Frames:
        """Waits for the first item, so that a refusal can still be an HTTP status. A slow one does not hold the
        headers back: clients give up on silence after 5 s."""
        frames = Frames(items, framing)
        try:
            await frames.wait(self._keepalive_s)
            if frames.error is not None and not frames.ready:
                raise frames.error
        except BaseException:
            await frames.close()
            raise
        return frames

    async def send(self, frames: Frames, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: frames.news.ring())
        self._sending.add(frames)
        try:
            last = b""
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS, SOON: bool(frames.ready)})
            while not gone.done():
                if frames.ended:
                    last = frames.take() + frames.last_word()
                    break
                if frames.ready:
                    await send({"type": "http.response.body", "body": frames.take(), "more_body": True})
                elif self._closing:
                    last = RESUME_HINT
                    break
                elif not await frames.wait(self._keepalive_s):
                    await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
            else:
                return
        finally:
            self._sending.discard(frames)
            gone.cancel()
            await frames.close()
            await asyncio.wait({gone})
        await send({"type": "http.response.body", "body": last, "more_body": False})


class Frames:
    """The frames of one stream, made as its items come. Whoever sends takes all there are at once: a quick agent makes
    many between two writes, and each write has its price."""

    def __init__(self, items: Stream, framing: Framing) -> None:
        self.ready: list[bytes] = []
        self.ended = False
        self.error: Exception | None = None
        self.news = Bell()
        self._items = items
        self._framing = framing
        self._room = asyncio.Event()
        self._task = asyncio.create_task(self._frame())

    def take(self) -> bytes:
        body = b"".join(self.ready)
        self.ready.clear()
        self._room.set()
        return body

    def last_word(self) -> bytes:
        """What is said of the error that ended the stream, if one did."""
        if self.error is None:
            return b""
        if isinstance(self.error, A2AError):
            return self._framing.error(self.error)
        log.error("a2a_server.http.stream_sse.error", exc_info=self.error)
        return self._framing.error(InternalFault())

    async def wait(self, seconds: float) -> bool:
        """Until there is news, at most so long; False when there is none."""
        return await self.news.wait(seconds)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._items.aclose()

    async def _frame(self) -> None:
        try:
            async for streamed in self._items:
                self.ready.append(self._framing.item(streamed))
                self.news.ring()
                if streamed.final:
                    return
                if len(self.ready) >= MOST_READY:
                    # The reader is slow: what it has not taken waits in the log, not here.
                    self._room.clear()
                    await self._room.wait()
            log.debug("a2a_server.http.stream_sse.ended_early")  # cleanly closed, as after a last event
        except Exception as error:
            self.error = error
        finally:
            self.ended = True
            self.news.ring()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
