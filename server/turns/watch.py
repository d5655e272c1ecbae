"""Watching a turn to its end: what a stream shows, and when it is over.

A watch ends with the event that closes the task or makes it wait for its caller. The watch of a message that joined an
existing task begins to count with that message, so that the end of the turn before it is not taken for its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import NamedTuple

from server.protocol import documents, errors
from server.protocol.model import Event, Message, MessageJoined, State, Status, StatusUpdate, StreamItem, Task
from server.turns import cursor as cursors
from server.turns.admission import closing, store_errors
from server.turns.cursor import Cursor
from server.turns.follow import Following, TaskGone
from server.turns.record import event_of, task_of
from server.turns.running import RunningTurn
from server.turns.worker import Worker
from stores.records import Admission, TaskView


class Streamed(NamedTuple):
    """One item of a stream: its position, the item, and whether the stream closes after it."""

    cursor: Cursor
    item: StreamItem
    final: bool


Stream = AsyncGenerator[Streamed, None]


class _End:
    """Tells which event is the last one."""

    def __init__(self, message_id: str | None) -> None:
        self._waiting_for = message_id

    def after(self, event: Event) -> bool:
        if isinstance(event, MessageJoined):
            if event.message.message_id == self._waiting_for:
                self._waiting_for = None
            return False
        if not isinstance(event, StatusUpdate):
            return False
        return self.at(event.status.state)

    def at(self, state: State) -> bool:
        return state.terminal or (state.interrupted and self._waiting_for is None)


class Watching:
    """Makes watches for one worker."""

    def __init__(self, worker: Worker, following: Following) -> None:
        self._worker = worker
        self._store = worker.store
        self._following = following

    def local(self, turn: RunningTurn, *, new: bool, held: bool) -> Stream:
        """The stream of a turn that was admitted by this worker. `held`: the task is not shown before the agent showed
        that there is one, since its answer may be a direct Message."""
        view = turn.ticket.view
        if held:
            return self._held(turn, view)
        if new:
            first = _beginning(view, turn.ticket.started_ms)
        else:
            first = [Streamed(cursors.of(view.last), task_of(view), False)]
        return self._events(turn.ticket.context.caller, view, None, turn, first)

    async def _held(self, turn: RunningTurn, view: TaskView) -> Stream:
        first = True
        try:
            async for seen in self._events(turn.ticket.context.caller, view, None, turn):
                if first:
                    first = False
                    yield Streamed(cursors.of(view.last), task_of(view), False)
                yield seen
        except TaskGone:
            ended = await turn.end()
            if ended.reply is None:
                raise
            yield Streamed(cursors.of(view.last), ended.reply, True)

    async def task(self, caller: str, view: TaskView, asked: Admission | None, message_id: str | None) -> Stream:
        """The snapshot, then every event after it. `asked`: the queued message this watch is for."""
        task = task_of(view)
        over = view.phase == "closed"
        if asked is not None and not over:
            over = await self._has_ended(asked)
            if over:
                with store_errors():
                    view = await self._store.tasks.read_task(caller, view.task_id) or view
                task = task_of(view)
        yield Streamed(cursors.of(view.last), task, over)
        if not over:
            async for seen in self._events(caller, view, message_id, None):
                yield seen

    async def after(self, caller: str, view: TaskView, after: Cursor, message_id: str | None) -> Stream:
        """What came after the event that the caller saw last; where nothing is left to come, the task itself."""
        if view.phase == "closed" and after >= cursors.of(view.last):
            yield Streamed(cursors.of(view.last), task_of(view), True)
            return
        if after > cursors.of(view.last):
            # It was never in this log, or a failover lost it: nothing would ever come after it.
            async for seen in self.task(caller, view, None, message_id):
                yield seen
            return
        async for seen in self._events(caller, replace(view, last=cursors.render(after)), message_id, None):
            yield seen

    async def outcome(self, asked: Admission, message_id: str | None) -> Task | Message:
        """Waits for the end of a message's turn, wherever it runs, or for the end of this worker."""
        waiting = asyncio.ensure_future(self._outcome(asked, message_id))
        closed = asyncio.ensure_future(self._worker.closing.wait())
        try:
            with self._worker.caller_waits():
                await asyncio.wait({waiting, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise closing(asked.task_id)
            return waiting.result()
        finally:
            for task in (waiting, closed):
                task.cancel()
            await asyncio.wait({waiting, closed})

    async def _outcome(self, asked: Admission, message_id: str | None) -> Task | Message:
        caller = asked.context.caller
        with store_errors():
            view = await self._store.tasks.read_task(caller, asked.task_id)
        if view is not None and not await self._has_ended(asked):
            with contextlib.suppress(TaskGone):
                async for _ in self._events(caller, view, message_id, None):
                    pass
        return await self._recorded(asked)

    async def _recorded(self, asked: Admission) -> Task | Message:
        with store_errors():
            record = await self._store.tasks.read_message(asked.context, asked.mid)
            view = await self._store.tasks.read_task(asked.context.caller, asked.task_id)
        if record is not None and record.error:
            raise errors.OperationUnsupported(
                f"Task {asked.task_id} ended before this message's turn came.", details={"taskId": asked.task_id}
            )
        if record is not None and record.reply:
            return documents.load_message(record.reply)
        if view is None:
            raise errors.TaskNotFound(details={"taskId": asked.task_id})
        return task_of(view)

    async def _has_ended(self, asked: Admission) -> bool:
        """Asked after the task was read: if it has not ended now, its end comes after what was read."""
        with store_errors():
            record = await self._store.tasks.read_message(asked.context, asked.mid)
        return record is None or record.status == "closed"

    async def _events(
        self,
        caller: str,
        view: TaskView,
        message_id: str | None,
        turn: RunningTurn | None,
        first: Sequence[Streamed] = (),
    ) -> Stream:
        """What comes after the view, up to its end; `first` goes before it."""
        for item in first:
            yield item
        end = _End(message_id)
        inbox = turn.claim_inbox() if turn is not None else None
        follower = self._following.follow(caller, view.task_id, cursors.of(view.last), inbox)
        try:
            async for seen in follower:
                if isinstance(seen.item, Task):
                    final = end.at(seen.item.status.state)
                    yield Streamed(seen.cursor, seen.item, final)
                else:
                    final = end.after(seen.item)
                    if not isinstance(seen.item, MessageJoined):
                        yield Streamed(seen.cursor, seen.item, final)
                if final:
                    return
        finally:
            await follower.aclose()


def _beginning(view: TaskView, started_ms: int) -> list[Streamed]:
    """A new task as it was before its turn started, and what its start made of it."""
    begun = replace(task_of(replace(view, entries=())), status=Status(State.SUBMITTED, started_ms))
    items = [Streamed(cursors.START, begun, False)]
    for entry in view.entries:
        event = event_of(view, entry)
        if not isinstance(event, MessageJoined):
            items.append(Streamed(cursors.of(entry.id), event, False))
    return items
