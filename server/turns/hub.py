"""Fan-out inside one worker: events reach its own followers straight after Redis acknowledged them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from server.protocol.model import Event
from server.turns.bell import Bell
from server.turns.cursor import Cursor

Step = tuple[Cursor, Event]


class Inbox:
    """What one follower has not taken yet. It is bounded: a slow reader goes back to the log, the turn never waits."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._steps: deque[Step] = deque()
        self._bell = Bell()
        self.stale = False
        """Something happened that is not in this inbox: look into the log."""

    def put(self, steps: Sequence[Step]) -> None:
        if len(self._steps) + len(steps) > self._size:
            self._steps.clear()
            self.stale = True
        else:
            self._steps.extend(steps)
        self._bell.ring()

    def wake(self, _word: str = "") -> None:
        self.stale = True
        self._bell.ring()

    def take(self) -> Step | None:
        return self._steps.popleft() if self._steps else None

    async def wait(self, seconds: float | None) -> bool:
        """Until something came, at most so long; False when nothing did."""
        return await self._bell.wait(seconds)


class Hub:
    """The followers of this worker, by task."""

    def __init__(self, buffer: int) -> None:
        self._buffer = buffer
        self._inboxes: dict[str, list[Inbox]] = {}

    def inbox(self) -> Inbox:
        """An inbox that is not attached yet."""
        return Inbox(self._buffer)

    def attach(self, task_id: str, inbox: Inbox) -> Inbox:
        self._inboxes.setdefault(task_id, []).append(inbox)
        return inbox

    def detach(self, task_id: str, inbox: Inbox) -> None:
        inboxes = self._inboxes.get(task_id)
        if inboxes and inbox in inboxes:
            inboxes.remove(inbox)
            if not inboxes:
                del self._inboxes[task_id]

    def follows(self, task_id: str) -> bool:
        """Whether anybody here does."""
        return task_id in self._inboxes

    def publish(self, task_id: str, steps: Sequence[Step]) -> None:
        for inbox in self._inboxes.get(task_id, ()):
            inbox.put(steps)

    def wake(self, task_id: str) -> None:
        for inbox in self._inboxes.get(task_id, ()):
            inbox.wake()
