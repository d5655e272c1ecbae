"""A worker that ends answers what reached it: no request is cut off, at its listener or on a kept connection."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from uvicorn import Config

from server.worker import DrainingServer
from tests.processes.conftest import quick_settings
from tests.support.engines import Engine
from tests.support.replicas import replicas
from tests.support.wait import wait_until

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
READ_SECONDS = 20.0


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def served(scene: Callable[[DrainingServer, socket.socket], Awaitable[None]], *, is_last: bool = True) -> None:
    """Plays a scene with a started server and its listener, on the loop of production."""

    async def play() -> None:
        config = Config(hello, lifespan="off", ws="none", http="httptools", log_level="error")
        config.load()
        server = DrainingServer(config, 0, os.getppid(), is_last=lambda: is_last)
        server.lifespan = config.lifespan_class(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await server.startup([listener])
            await scene(server, listener)

    uvloop.run(play())


def knock(listener: socket.socket) -> socket.socket:
    """A connection as the kernel makes it: the loop has no say in it, and has not accepted it yet."""
    caller = socket.create_connection(listener.getsockname(), READ_SECONDS)
    caller.sendall(ASK)
    return caller


def heard(caller: socket.socket) -> bytes:
    """All that it is told until the connection ends."""
    with caller:
        return b"".join(iter(lambda: caller.recv(4096), b""))


def test_what_waits_at_the_listener_is_answered_before_it_is_closed() -> None:
    async def scene(server: DrainingServer, listener: socket.socket) -> None:
        callers = [knock(listener) for _ in range(20)]
        await server.shutdown([listener])
        answers = [heard(caller) for caller in callers]
        assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 200 OK"}

    served(scene)


def test_what_waits_at_a_listener_that_others_serve_is_left_to_them() -> None:
    async def scene(server: DrainingServer, listener: socket.socket) -> None:
        with listener.dup() as other:
            other.settimeout(READ_SECONDS)
            callers = [knock(listener) for _ in range(3)]
            await server.shutdown([listener])
            for caller in callers:
                with caller, other.accept()[0] as accepted:
                    assert accepted.recv(4096) == ASK

    served(scene, is_last=False)


def test_a_request_that_meets_the_end_on_a_kept_connection_is_answered() -> None:
    async def scene(server: DrainingServer, listener: socket.socket) -> None:
        callers = [knock(listener) for _ in range(20)]
        for caller in callers:
            first = await asyncio.to_thread(caller.recv, 4096)
            assert first.startswith(b"HTTP/1.1 200 OK")
            assert b"connection: close" not in first
        for caller in callers:
            caller.sendall(ASK)  # lies unread in the worker's socket when it begins to close
        await server.shutdown([listener])
        assert [heard(caller).count(b"HTTP/1.1 200 OK") for caller in callers] == [1] * len(callers)

    served(scene)


async def answer_of(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """The status, and whether the connection ends with it."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    return head.split()[1].decode(), b"connection: close" in head


def message() -> bytes:
    part = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "echo"}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": part}}).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Caller:
    """Sends one message after the other as long as it gets a connection, and retries nothing."""

    def __init__(self, port: int, *, keeps: bool, pause: float) -> None:
        self.port = port
        self.keeps = keeps
        self.pause = pause
        self.seen: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                return  # nobody listens any more
            try:
                await self._talk(reader, writer)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.seen[f"cut off: {error!r}"] += 1
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():  # a connection may be closed while it is idle
            writer.write(message())
            status, ends = await answer_of(reader)
            self.seen[status] += 1
            await asyncio.sleep(self.pause)
            if ends or not self.keeps:
                return


@pytest.mark.parametrize("keeps", [True, False], ids=["kept connections", "new connections"])
async def test_callers_of_a_replica_that_ends_are_answered_until_it_refuses(real_engine: Engine, keeps: bool) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ns-doors-") as folder,
        replicas(1, quick_settings(real_engine, drain_seconds=2), Path(folder)) as (server,),
    ):
        callers = [Caller(server.port, keeps=keeps, pause=pause) for pause in (0, 0.003, 0.03, 0.3) for _ in range(6)]
        running = [asyncio.create_task(caller.run()) for caller in callers]
        await wait_until(lambda: all(caller.seen["200"] for caller in callers))
        server.terminate()
        assert await server.gone() == 0, server.log
        await asyncio.wait_for(asyncio.gather(*running), READ_SECONDS)

        seen = sum((caller.seen for caller in callers), Counter[str]())
        assert set(seen) <= {"200", "503"}, seen
