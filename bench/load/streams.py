"""Streams: each connection sends a message, reads every event of its turn, and begins again.

With a second port each stream is also followed there, by a subscription of another connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.load.connection import Connection, post
from bench.load.sse import Heard, Reader
from bench.load.talk import Wrong, send
from bench.load.turns import HEADERS

PATIENCE_SECONDS = 100.0


@dataclass(eq=False)
class _Line:
    """One connection: of the sender, or of a follower of somebody else's stream."""

    connection: Connection
    port: int
    other: _Line | None = None
    """The sender's follower, the follower's sender."""
    reader: Reader = field(default_factory=Reader)
    heard: Heard = field(default_factory=Heard)
    began: int = 0
    passive: bool = False


class Streams:
    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._text: str = plan["text"]
        verb, count, *_ = self._text.split()
        self._paced = verb == "pace"
        self._chunks = int(count)
        self._lines: dict[Connection, _Line] = {}
        self._senders: list[_Line] = []
        self._busy = 0
        self._until = 0
        self._idle = asyncio.Event()
        self.forget()

    def forget(self) -> None:
        self.events = 0
        self.streams = 0
        self.first = array("q")
        self.lags = array("q")
        self.far_lags = array("q")
        self.wrong: list[str] = []

    async def open(self) -> None:
        home, *away = self._plan["ports"]
        for _ in range(self._plan["streams"]):
            line = await self._connect(home)
            if away and self._plan.get("follow"):
                line.other = await self._connect(away[0])
                line.other.other, line.other.passive = line, True
            self._senders.append(line)

    async def _connect(self, port: int) -> _Line:
        make = partial(Connection, self._ended, self._lost, self._piece)
        _, connection = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port)
        line = self._lines[connection] = _Line(connection, port)
        return line

    async def run(self, seconds: float, most: int | None = None) -> float:
        """Begins streams for so long, at least one on each connection; the seconds until the last has ended."""
        began = time.perf_counter_ns()
        self._until = began + int(seconds * 1e9)
        self._idle.clear()
        for line in self._senders[:most]:
            self._begin(line)
        async with asyncio.timeout(seconds + PATIENCE_SECONDS):
            await self._idle.wait()
        return (time.perf_counter_ns() - began) / 1e9

    def close(self) -> None:
        for connection in self._lines:
            connection.close()

    def _begin(self, line: _Line) -> None:
        line.began = time.perf_counter_ns()
        self._post(line, send("1.0", self._text, stream=True))

    def _follow(self, line: _Line, task: str) -> None:
        self._post(line, {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}})

    def _post(self, line: _Line, asked: dict[str, Any]) -> None:
        line.reader, line.heard = Reader(), Heard()
        self._busy += 1
        body = json.dumps(asked, separators=(",", ":")).encode()
        line.connection.send(post("127.0.0.1", line.port, self._plan["path"], body, HEADERS["1.0"]))

    def _piece(self, connection: Connection, piece: bytes) -> None:
        line = self._lines[connection]
        now = time.monotonic_ns()
        try:
            for result in line.reader.feed(piece):
                if not line.heard.events and not line.passive:
                    self.first.append(time.perf_counter_ns() - line.began)
                chunk = line.heard.take(result)
                if chunk is not None and self._paced:
                    (self.far_lags if line.passive else self.lags).append(now - int(chunk))
                if line.other and not line.passive and line.heard.events == 1:
                    self._follow(line.other, line.heard.task)
        except (Wrong, ValueError, KeyError) as error:
            self._note(f"{type(error).__name__} {error}: {piece[:300]!r}")

    def _ended(self, connection: Connection) -> None:
        line = self._lines[connection]
        heard = line.heard
        self._busy -= 1
        if not line.passive:
            self.streams += 1
            self.events += heard.events
            expected = "".join(f"chunk {number} " for number in range(self._chunks))
            said = "".join(heard.text)
            complete = len(said.split()) == self._chunks if self._paced else said == expected
            if not complete or heard.final != f"echo: {self._text}":
                self._note(f"an incomplete stream: {len(heard.text)} chunks, then {heard.final!r}")
        elif heard.final != f"echo: {self._text}" or len("".join(heard.text).split()) != self._chunks:
            said = f"HTTP {connection.status}, {len(heard.text)} chunks, {heard.events} events"
            self._note(f"an incomplete subscription: {said}, then {heard.final!r} {line.reader.rest!r:.300}")
        if line.other is not None and line.other.connection.busy:
            return  # both have ended before either begins again
        if time.perf_counter_ns() < self._until:
            self._begin(line.other if line.other and line.passive else line)
        elif self._busy == 0:
            self._idle.set()

    def _lost(self, connection: Connection) -> None:
        if connection.busy:
            self._note("the connection was closed before its end")
            self._busy -= 1
            if self._busy == 0:
                self._idle.set()

    def _note(self, what: str) -> None:
        self.wrong.append(what)
        if len(self.wrong) >= 100:
            self._until = 0
