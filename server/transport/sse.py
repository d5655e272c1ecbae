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
from server.turns import cursor as cursors
from server.turns.watch import Stream, Streamed

log = logging.getLogger(__name__)

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY_STREAMS_S = 1
KEEP_ALIVE = b": keep-alive\n\n"
# Sent when this worker goes: the work goes on, and any other worker continues the stream.
RESUME_HINT = b": this worker is closing; subscribe again with Last-Event-ID to go on without a gap\n\n"

# Escapes every character outside ASCII: some clients split lines at U+2028, U+2029 and U+0085 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Framing:
    """How one stream is written. `render` makes the JSON of an item, `fail` that of an error; `ids` adds `id:` lines,
    `named_errors` marks errors with `event: error`."""

    render: Callable[[Streamed], Any]
    fail: Callable[[A2AError], Any]
    ids: bool
    named_errors: bool

    def item(self, streamed: Streamed) -> bytes:
        data = _ENCODER.encode(self.render(streamed))
        if self.ids:
            return f"id: {cursors.render(streamed.cursor)}\ndata: {data}\n\n".encode()
        return f"data: {data}\n\n".encode()

    def error(self, error: A2AError) -> bytes:
        name = "event: error\n" if self.named_errors else ""
        return f"{name}data: {_ENCODER.encode(self.fail(error))}\n\n".encode()


class EventStreams:
    """Sends streams for one worker, and closes them all when it goes."""

    def __init__(self, keepalive_s: float, most: int) -> None:
        self._keepalive_s = keepalive_s
        self._most = most
        self._closing = asyncio.Event()
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
        self._closing.set()

    async def first(self, items: Stream) -> asyncio.Task[Streamed]:
        """Waits for the first item, so that a refusal can still be an HTTP status. A slow one does not hold the
        headers back: clients give up on silence after 5 s."""
        task = asyncio.ensure_future(_next(items))
        await asyncio.wait({task}, timeout=self._keepalive_s)
        if task.done() and (error := task.exception()) is not None:
            await items.aclose()
            raise error
        return task

    async def send(
        self, items: Stream, first: asyncio.Task[Streamed], framing: Framing, receive: Receive, send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        gone = asyncio.ensure_future(_disconnected(receive))
        closing = asyncio.ensure_future(self._closing.wait())
        pending = first
        try:
            while True:
                await asyncio.wait(
                    {pending, gone, closing}, timeout=self._keepalive_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    return
                if pending.done():
                    streamed = pending.result()
                    await send({"type": "http.response.body", "body": framing.item(streamed), "more_body": True})
                    if streamed.final:
                        break
                    pending = asyncio.ensure_future(_next(items))
                elif closing.done():
                    await send({"type": "http.response.body", "body": RESUME_HINT, "more_body": True})
                    break
                else:
                    await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
        except StopAsyncIteration:
            log.debug("a2a_server.http.stream_sse.ended_early")  # cleanly closed below, as after a last event
        except A2AError as error:
            await send({"type": "http.response.body", "body": framing.error(error), "more_body": True})
        except Exception:
            log.exception("a2a_server.http.stream_sse.error")
            await send({"type": "http.response.body", "body": framing.error(InternalFault()), "more_body": True})
        finally:
            for task in (pending, gone, closing):
                task.cancel()
            await asyncio.wait({pending, gone, closing})
            await items.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _next(items: Stream) -> Streamed:
    return await items.__anext__()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
