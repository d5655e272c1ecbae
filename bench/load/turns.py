"""Blocking turns in a closed loop: each connection sends its next message when it has got its answer."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from functools import partial
from typing import Any

from bench.load.connection import Connection, post
from bench.load.talk import TALKS, Talk, Wrong

HEADERS = {"1.0": {"a2a-version": "1.0"}, "0.3": {}}
ANSWER_SECONDS = 60.0


class Turns:
    """The connections of one run; `run` can be called again, and waits until nothing is under way."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._began: dict[Connection, int] = {}
        self._talks: dict[Connection, Talk] = {}
        self._ports: dict[Connection, int] = {}
        self._until = 0
        # At most so many requests, where a number is wanted and not a time.
        self._left: int = plan.get("most", 1 << 60)
        self._busy = 0
        self._idle = asyncio.Event()
        self.latencies = array("q")
        self.wrong: list[str] = []

    async def open(self) -> None:
        ports = self._plan["ports"]
        for number in range(self._plan["connections"]):
            port = ports[number % len(ports)]
            make = partial(Connection, self._answered, self._lost)
            _, connection = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port)
            self._ports[connection] = port
            self._talks[connection] = TALKS[self._plan["talk"]](self._plan)

    async def run(self, seconds: float) -> float:
        """Sends for so long; the seconds until the last answer was there."""
        began = time.perf_counter_ns()
        self._until = began + int(seconds * 1e9)
        self._idle.clear()
        for connection in self._talks:
            self._next(connection)
        async with asyncio.timeout(seconds + ANSWER_SECONDS):
            await self._idle.wait()
        return (time.perf_counter_ns() - began) / 1e9

    def forget(self) -> None:
        del self.latencies[:]

    def close(self) -> None:
        for connection in self._talks:
            connection.close()

    def _next(self, connection: Connection) -> None:
        body = json.dumps(self._talks[connection].request(), separators=(",", ":")).encode()
        headers = {**HEADERS[self._plan["dialect"]], **self._plan.get("headers", {})}
        request = post("127.0.0.1", self._ports[connection], self._plan["path"], body, headers)
        self._busy += 1
        self._left -= 1
        self._began[connection] = time.perf_counter_ns()
        connection.send(request)

    def _answered(self, connection: Connection) -> None:
        now = time.perf_counter_ns()
        self.latencies.append(now - self._began[connection])
        self._busy -= 1
        try:
            self._talks[connection].check(connection.status, connection.body)
        except Wrong as wrong:
            self._note(str(wrong))
        if now < self._until and self._left > 0:
            self._next(connection)
        elif self._busy == 0:
            self._idle.set()

    def _lost(self, connection: Connection) -> None:
        if connection.busy:
            self._note("the connection was closed before its answer")
            self._busy -= 1
            if self._busy == 0:
                self._idle.set()

    def _note(self, what: str) -> None:
        self.wrong.append(what)
        if len(self.wrong) >= 100:
            self._until = 0  # no number of this run is worth anything
