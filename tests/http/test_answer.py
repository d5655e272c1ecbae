"""How answers leave a worker: whole ones in one write, streams as they come, failures with a word."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from server.transport.head import bounded_http

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]}
REQUEST = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"


class Line(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


async def answered(app: Callable[..., Awaitable[None]], request: bytes = REQUEST) -> Line:
    config = uvicorn.Config(app, http=bounded_http(1024), lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    make: Any = config.http_protocol_class
    protocol = make(config=config, server_state=state, app_state={})
    line = Line()
    protocol.connection_made(line)
    protocol.data_received(request)
    while state.tasks:
        await asyncio.gather(*state.tasks)
    closed = line.closed
    protocol.connection_lost(None)
    line.closed = closed
    return line


async def test_head_and_body_of_a_whole_answer_are_one_write() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"hello"})

    line = await answered(app)
    assert len(line.writes) == 1
    assert line.writes[0].startswith(b"HTTP/1.1 200 ")
    assert line.writes[0].endswith(b"\r\n\r\nhello")
    assert not line.closed


async def test_a_connection_that_ends_with_its_answer_is_closed_after_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": b"hel", "more_body": True})
        await send({"type": "http.response.body", "body": b"lo"})

    line = await answered(app, REQUEST.replace(b"host", b"connection: close\r\nhost"))
    assert b"".join(line.writes).endswith(b"\r\n\r\nhello")
    assert b"connection: close\r\n" in line.writes[0]
    assert line.closed


async def test_what_was_sent_behind_a_last_answer_is_not_run() -> None:
    """Its own answer could not be sent any more: it would be work that nobody hears of."""
    paths: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        await asyncio.sleep(0)  # so that both requests have been read
        await send({**START, "headers": [(b"content-length", b"5"), (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"hello"})

    line = await answered(app, REQUEST + REQUEST.replace(b"GET /", b"GET /more"))
    assert paths == ["/"]
    assert len(line.writes) == 1
    assert line.closed


async def test_the_head_of_a_stream_does_not_wait() -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append(1)
        await send({"type": "http.response.body", "body": b"data", "more_body": False})

    line = await answered(app)
    assert len(line.writes) == 2
    assert seen == [1]


async def test_who_fails_between_head_and_body_answers_500() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        raise ValueError("no body")

    line = await answered(app)
    assert len(line.writes) == 1
    assert line.writes[0].startswith(b"HTTP/1.1 500 ")
    assert line.closed
