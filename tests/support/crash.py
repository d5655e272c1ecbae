"""A process that dies at one chosen step of its work: before or after some operation of the store.

The hook is a wrapper around the store's operations that only a test's own worker process installs, into itself. The
server and the stores have no line for it, so it can't cost or happen anywhere else.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from stores.fleet import FleetStore
from stores.push import PushStore
from stores.tasks import TaskStore
from stores.turns import TurnStore

PARTS = (TurnStore, TaskStore, PushStore, FleetStore)

Side = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Point:
    """The `nth` call of an operation, counted from the first call of `since` on.

    `before`: it is never sent. `after`: it was done, and nobody saw the answer.
    """

    since: str
    operation: str
    nth: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side} {self.operation} {self.nth}"

    @property
    def plan(self) -> dict[str, Any]:
        return asdict(self)


class Hook:
    """Counts the operations of this process, writes down what was called, and ends it at the point."""

    def __init__(self, point: Point | None, since: str, trace: Path) -> None:
        self._point = point
        self._since = since
        self._trace = os.open(trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._calls: Counter[str] = Counter()

    def install(self) -> None:
        for part in PARTS:
            for name, method in inspect.getmembers(part, inspect.iscoroutinefunction):
                if not name.startswith("_"):
                    setattr(part, name, self._wrapped(name, method))

    def _wrapped(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        async def hooked(*args: Any, **named: Any) -> Any:
            if not self._calls and name != self._since:
                return await method(*args, **named)
            self._calls[name] += 1
            nth = self._calls[name]
            os.write(self._trace, f"{name}\n".encode())
            self._die_at(name, nth, "before")
            reply = await method(*args, **named)
            self._die_at(name, nth, "after")
            return reply

        return hooked

    def _die_at(self, name: str, nth: int, side: Side) -> None:
        point = self._point
        if point is not None and (name, nth, side) == (point.operation, point.nth, point.side):
            os.kill(os.getpid(), signal.SIGKILL)
