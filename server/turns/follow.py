"""Following a task: every event once, in order, wherever the turn runs.

The log in Redis is the truth. A follower joins the task's channel first, then reads; a message on the channel only says
"look", or brings what there is to see: a copy, taken only if it follows on what was seen before. Events of a turn that
runs in this very worker arrive through the hub without a read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import NamedTuple

from server.observe import metrics
from server.protocol.model import Event, Task
from server.turns import cursor as cursors
from server.turns.cursor import Cursor
from server.turns.hub import Hub, Inbox, Step
from server.turns.record import event_of, task_of
from stores import Store
from stores.decode import decode_told
from stores.errors import StoreUnavailable
from stores.records import Entry, TaskView
from stores.tasks import READ_MOST

log = logging.getLogger(__name__)

# How often a follower looks by itself, in case a wake-up was lost.
LOOK_SECONDS = 2.0


class TaskGone(Exception):
    """There is no such task, or no more: it lapsed, or its turn ended with a direct Message."""


class Seen(NamedTuple):
    """One thing a follower saw: an event, or a whole task where the log no longer reaches back to its cursor."""

    cursor: Cursor
    item: Event | Task


class Following:
    """Makes followers."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store = store
        self._hub = hub

    async def follow(
        self, caller: str, task_id: str, after: Cursor, local: Inbox | None = None
    ) -> AsyncGenerator[Seen, None]:
        """Events after the cursor, without end: the caller knows which one is the last for it.

        `local`: the turn runs in this worker, and this inbox has got everything since the cursor.
        """
        inbox = self._hub.attach(task_id, local or self._hub.inbox())
        channel = self._store.keys.task_channel + task_id
        listening = False
        look = local is None
        current = False
        view: TaskView | None = None

        def hear(word: str) -> None:
            steps = _steps(view, word) if view is not None else []
            if steps:
                inbox.put(steps)
            else:
                inbox.wake()

        try:
            while True:
                if look or inbox.stale:
                    if not listening:
                        listening = True
                        await self._store.signals.listen(channel, hear)
                    inbox.stale = False
                    view = await self._read(caller, task_id, after)
                    if _too_old(view, after):
                        view = await self._read(caller, task_id, None)
                        after = cursors.of(view.last)
                        yield Seen(after, task_of(view))
                    else:
                        for entry in view.entries:
                            if current:
                                _observe_lag(entry)
                            after = cursors.of(entry.id)
                            yield Seen(after, event_of(view, entry))
                    look = len(view.entries) >= READ_MOST
                    # What was there before we came is not late; what comes from here on is, by however long it took.
                    current = not look
                    continue
                step = inbox.take()
                if step is None:
                    look = not await inbox.wait(LOOK_SECONDS if listening else None)
                elif step[0] > after:
                    if step[0] == (after[0], after[1] + 1):
                        after = step[0]
                        yield Seen(after, step[1])
                    else:
                        look = True
        finally:
            self._hub.detach(task_id, inbox)
            if listening:
                self._store.signals.forget(channel, hear)

    async def _read(self, caller: str, task_id: str, after: Cursor | None) -> TaskView:
        """The task and what came after the cursor; while Redis is away a follower waits for it."""
        delay = 0.1
        while True:
            try:
                view = await self._store.tasks.read_task(caller, task_id, cursors.render(after) if after else "")
            except StoreUnavailable as error:
                log.warning("a2a_server.follow.store_unavailable task=%s error=%s", task_id, error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 1.0)
                continue
            if view is None:
                raise TaskGone(task_id)
            return view


def _steps(view: TaskView, word: str) -> list[Step]:
    """What came with a wake-up. What can't be read is looked up: if it can't be read there either, it is the follower
    that says so, not whoever woke it."""
    try:
        entries = decode_told(word)
        steps: list[Step] = [(cursors.of(entry.id), event_of(view, entry)) for entry in entries]
    except (LookupError, TypeError, ValueError):
        return []
    for entry in entries:
        _observe_lag(entry)
    return steps


def _observe_lag(entry: Entry) -> None:
    metrics.EVENT_LAG.observe(max(0.0, time.time() - entry.at_ms / 1000))


def _too_old(view: TaskView, after: Cursor) -> bool:
    """Whether events after the cursor are missing from the log: trimmed, or lapsed with the whole log."""
    if after < cursors.of(view.trimmed):
        return True
    return not view.entries and after < cursors.of(view.last)
