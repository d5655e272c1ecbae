"""What wakes one waiter, who waits again and again."""

from __future__ import annotations

import asyncio
from math import inf


class Bell:
    """Rung by anyone, heard by one. A stream waits once for each event, and a time-out of its own for each wait would
    cost more than the rest of it: one timer stays, and looks when it is due whether somebody has waited so long."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def ring(self) -> None:
        self._rung = True
        self._let_go()

    async def wait(self, seconds: float | None = None) -> bool:
        """Until it rings, or has rung since the last time; False when it has not within the time."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            self._due = inf if seconds is None else loop.time() + seconds
            if seconds is not None and self._timer is None:
                self._timer = loop.call_at(self._due, self._check)
            try:
                await self._waiter
            finally:
                self._waiter = None
        rung, self._rung = self._rung, False
        return rung

    def _check(self) -> None:
        self._timer = None
        if self._waiter is None or self._due == inf:
            return  # the next wait sets its own
        loop = asyncio.get_running_loop()
        if loop.time() >= self._due:
            self._let_go()
        else:
            self._timer = loop.call_at(self._due, self._check)

    def _let_go(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
