"""The head of a request is bounded in size and time before anything of ours looks at it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn

from server.transport.head import bounded_http

MOST = 8 * 1024


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def listening(*, patience: int = 30) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app,
        http=bounded_http(MOST),
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=patience,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign,assignment]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


class Talk:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def status(self) -> int:
        """The next answer's status; 0 when the connection is closed instead."""
        async with asyncio.timeout(10):
            try:
                head = await self.reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await self.reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                return 0
        return int(head.split(b" ")[1])


@asynccontextmanager
async def talk(port: int) -> AsyncIterator[Talk]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Talk(reader, writer)
    finally:
        writer.close()


def get(*headers: bytes, path: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: a", *headers, b"", b""])


async def test_a_head_within_the_bound_is_served_again_and_again() -> None:
    async with listening() as port, talk(port) as it:
        for _ in range(5):
            await it.say(get(b"X-Long: " + b"a" * (MOST - 200)))
            assert await it.status() == 200


async def test_a_large_header_gets_431() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(get(b"X-Long: " + b"a" * MOST))
        assert await it.status() == 431
        assert await it.status() == 0


async def test_many_small_headers_get_431() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(get(*(b"X-%d: a" % number for number in range(MOST // 8))))
        assert await it.status() == 431


async def test_a_long_address_gets_431() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(get(path=b"/" + b"a" * MOST))
        assert await it.status() == 431


async def test_a_header_that_never_ends_is_cut_off() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(b"GET / HTTP/1.1\r\nX-Long: ")
        sent = 0
        try:
            while sent < 64 * MOST and not it.reader.at_eof():
                await it.say(b"a" * 1024)
                sent += 1024
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        assert sent < 64 * MOST


async def test_a_large_body_is_none_of_its_business() -> None:
    async with listening() as port, talk(port) as it:
        size = 40 * MOST
        await it.say(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size, b"b" * size)
        assert await it.status() == 200
        chunk = b"%x\r\n%s\r\n" % (1024, b"c" * 1024)
        await it.say(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", *[chunk] * 200, b"0\r\n\r\n")
        assert await it.status() == 200


async def test_trailers_count_too() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        await it.say(b"X-Long: " + b"a" * 2 * MOST + b"\r\n\r\n")
        assert await it.status() == 431


async def test_who_never_ends_its_head_is_not_waited_for() -> None:
    async with listening(patience=1) as port, talk(port) as silent, talk(port) as slow:
        await slow.say(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        assert await silent.status() == 0
        assert await slow.status() == 0


async def test_nonsense_is_still_a_400() -> None:
    async with listening() as port, talk(port) as it:
        await it.say(b"\x16\x03\x01 hello\r\n\r\n")
        assert await it.status() == 400
