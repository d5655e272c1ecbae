"""A relay before an engine that counts what passes: calls, writes, and bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import hiredis

CHUNK = 1 << 20
SIGNALS = ("SUBSCRIBE", "UNSUBSCRIBE")


@dataclass
class Passed:
    """What went through: calls by operation or command, writes that waited for an answer, and bytes."""

    calls: Counter[str] = field(default_factory=Counter)
    round_trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    answers: int = 0


class Meter:
    """Runs in a thread of its own; `passed` is replaced by `restart`."""

    def __init__(self, socket_path: str, names: Mapping[str, str]) -> None:
        """`names` are those of scripts, by their hash."""
        self._socket = socket_path
        self.names = names
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="meter", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = Passed()
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def restart(self) -> None:
        """Counts from nothing; to be called when nothing is under way."""
        self.passed = Passed()

    @property
    def quiet(self) -> bool:
        """Whether every command has its answer; those of the pub/sub connection are not waited for."""
        passed = self.passed
        return passed.answers >= sum(count for name, count in passed.calls.items() if name not in SIGNALS)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError):
                await self._relay(reader, writer)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_engine, to_engine = await asyncio.open_unix_connection(self._socket, limit=CHUNK)
        line = _Line(self)
        ways = {
            asyncio.ensure_future(_pass(reader, to_engine, line.forth)),
            asyncio.ensure_future(_pass(from_engine, writer, line.back)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_engine.transport.abort()


class _Line:
    """One connection."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._commands = hiredis.Reader(encoding="utf-8", errors="replace")
        self._replies = hiredis.Reader()
        self._signals = False

    def forth(self, data: bytes) -> None:
        passed = self._meter.passed
        self._commands.feed(data)
        commands = list(iter(self._commands.gets, False))
        names = [self._name(command) for command in commands]
        passed.calls.update(names)
        passed.bytes_sent += len(data)
        self._signals = self._signals or any(name in SIGNALS for name in names)
        if not self._signals:
            passed.round_trips += 1

    def _name(self, command: Any) -> str:
        verb = str(command[0]).upper()
        return self._meter.names.get(str(command[1]), verb) if verb == "EVALSHA" else verb

    def back(self, data: bytes) -> None:
        passed = self._meter.passed
        passed.bytes_received += len(data)
        if not self._signals:
            self._replies.feed(data)
            passed.answers += sum(1 for _ in iter(self._replies.gets, False))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Any) -> None:
    while data := await reader.read(CHUNK):
        seen(data)
        writer.write(data)
        await writer.drain()


@contextmanager
def metered(socket_path: str, names: Mapping[str, str]) -> Iterator[Meter]:
    meter = Meter(socket_path, names)
    meter.start()
    try:
        yield meter
    finally:
        meter.stop()
