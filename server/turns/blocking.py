"""Notices an event loop that stands still, while it does, and says who holds it.

Everything of a worker runs on one loop: an agent that computes or sleeps in it without an await stops the heartbeat,
all other turns and every stream. A thread looks at a mark the loop renews; it needs nothing of the loop to speak.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

log = logging.getLogger(__name__)

MARK_SECONDS = 0.1
# Others' turns wait for so long before anybody is told; far above what a busy machine does by itself.
BLOCKED_SECONDS = 1.0


class LoopWatch:
    """Watches the loop it is started on. `agent` is whose code runs there."""

    def __init__(self, agent: str, blocked_s: float = BLOCKED_SECONDS) -> None:
        self._agent = agent
        self._blocked_s = blocked_s
        self._mark = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.longest = 0.0
        """Seconds of the longest standstill seen so far."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._renew()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def _renew(self) -> None:
        self._mark = time.monotonic()
        self._timer = self._loop.call_later(MARK_SECONDS, self._renew)

    def _watch(self) -> None:
        told = looked = 0.0
        while not self._stop.wait(MARK_SECONDS):
            now = time.monotonic()
            if looked and now - looked > self._blocked_s:
                told = self._mark  # the whole process stood still, this thread too: that was nobody's code
            looked = now
            lag = now - self._mark - MARK_SECONDS
            if lag < self._blocked_s:
                continue
            self.longest = max(self.longest, lag)
            if told != self._mark:
                told = self._mark
                self._tell(lag)

    def _tell(self, lag: float) -> None:
        frame = sys._current_frames().get(self._watched)
        place = traceback.extract_stack(frame)[-1] if frame else None
        task = asyncio.current_task(self._loop)
        log.error(
            "a2a_server.loop.blocked agent=%s seconds=%.1f in=%s at=%s: every turn and stream of this worker waits; "
            "await something, use asyncio.to_thread, or declare threaded = True",
            self._agent,
            lag,
            task.get_name() if task else "-",
            f"{place.filename}:{place.lineno} {place.name}" if place else "-",
        )
