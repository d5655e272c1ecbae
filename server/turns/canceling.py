"""Ending a task on its caller's wish, wherever it is.

queued   removed and closed in one step
running  marked in Redis and its worker woken; the answer is given when the work has stopped, or, after a bounded
         wait, when the task was taken from it and closed without it
idle     a turn of its own in the context's order, so that the agent can let go of what it holds
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from server.observe import metrics, traces
from server.protocol import documents, errors
from server.protocol.folding import fold
from server.protocol.model import CancelTask, State, Status, StatusUpdate, Task
from server.turns.admission import Admissions, read_view, store_errors
from server.turns.record import Asked, task_of
from server.turns.watch import Watching
from server.turns.worker import Worker
from stores.keys import ContextRef
from stores.records import Admitted, CancelReply, Finish, Finished, TaskView

log = logging.getLogger(__name__)

# How often the situation may change under our hands before we give up.
TRIES = 10


class Canceling:
    """Cancels tasks on behalf of one worker."""

    def __init__(self, worker: Worker, admissions: Admissions, watching: Watching) -> None:
        self._worker = worker
        self._store = worker.store
        self._admissions = admissions
        self._watching = watching

    async def cancel(self, caller: str, asked: CancelTask) -> Task:
        """The canceled task. TaskNotCancelable where it ended before, or ended otherwise first."""
        view = await self._view(caller, asked.task_id)
        kept = task_of(view).trace if traces.on() else ""
        with traces.span("nonstick.cancel", kept, traces.current(), task=asked.task_id, worker=self._worker.id):
            return await self._cancel(caller, view, asked)

    async def _cancel(self, caller: str, view: TaskView, asked: CancelTask) -> Task:
        for attempt in range(TRIES):
            if attempt:
                view = await self._view(caller, asked.task_id)
            if view.phase == "closed":
                raise _too_late(asked.task_id, view.state)
            context = ContextRef.of(caller, view.context_id)
            reply = await self._request(context, view)
            match reply.word:
                case "canceled":
                    return task_of(await self._view(caller, asked.task_id))
                case "closed":
                    raise _too_late(asked.task_id, reply.state)
                case "unknown":
                    raise errors.TaskNotFound(details={"taskId": asked.task_id})
                case "requested":
                    with self._worker.caller_waits():
                        ended = await self._await_stop(caller, view, context, reply)
                case "idle":
                    ended = await self._cancel_idle(context, view, asked)
                case "changed":
                    ended = None
            if ended is not None and ended.status.state is State.CANCELED:
                return ended
            if ended is not None and ended.status.state.terminal:
                raise _too_late(asked.task_id, ended.status.state.value)
        raise errors.TaskNotCancelable(
            f"Task {asked.task_id} kept changing while it was being canceled; try again.",
            details={"taskId": asked.task_id},
        )

    async def _request(self, context: ContextRef, view: TaskView) -> CancelReply:
        event = _canceled(view, stopped=True)
        with store_errors():
            return await self._store.turns.cancel_task(
                context,
                view.task_id,
                based=view.last,
                state=State.CANCELED.value,
                doc=documents.dump_task(fold(task_of(view), event)),
                event=documents.dump_event(event)[1],
            )

    async def _await_stop(self, caller: str, view: TaskView, context: ContextRef, reply: CancelReply) -> Task | None:
        """Waits for the running turn's end; None when it ended in a state that can still be canceled."""
        began, how = time.monotonic(), "stopped"
        try:
            async with asyncio.timeout(self._worker.bounds.cancel_wait_s):
                async for _ in self._watching.task(caller, view, None, None):
                    pass
        except TimeoutError:
            how = "forced"
            await self._force(context, reply)
        metrics.CANCEL_SECONDS.observe(time.monotonic() - began, how)
        task = task_of(await self._view(caller, view.task_id))
        return task if task.status.state.terminal else None

    async def _force(self, context: ContextRef, reply: CancelReply) -> None:
        """The worker did not answer in time: the turn is taken from it and closed; its later writes are refused."""
        worker = self._worker
        with store_errors():
            taken = await self._store.turns.take_over(worker.id, context, owner=reply.owner, fence=reply.fence)
            if taken is None:
                return
            word, ticket = taken
            if word != "taken":
                worker.start_turn(ticket)
                return
            log.error("a2a_server.cancel.forced task=%s owner=%s", ticket.task_id, reply.owner)
            event = _canceled(ticket.view, stopped=False)
            task = fold(task_of(ticket.view), event)
            end = Finish(
                state=State.CANCELED.value,
                phase="closed",
                doc=documents.dump_task(task),
                seq=1,
                events=(documents.dump_event(event),),
                take_next=not worker.draining,
            )
            finished = await self._store.turns.finish_turn(ticket, end)
        worker.hub.wake(ticket.task_id)
        if isinstance(finished, Finished) and finished.next is not None:
            worker.start_turn(finished.next)

    async def _cancel_idle(self, context: ContextRef, view: TaskView, asked: CancelTask) -> Task | None:
        try:
            admission, admitted = await self._admissions.admit_cancel(
                context, view, Asked("cancel", None, asked.metadata, traces.current())
            )
        except errors.MessageInFlight:
            # Another cancel of the same task is under way; its end is ours.
            async for _ in self._watching.task(context.caller, view, None, None):
                pass
        except errors.OperationUnsupported:
            return None
        else:
            if isinstance(admitted, Admitted):
                ended = await self._worker.start_turn(admitted.ticket).end()
                if ended.task is not None:
                    return ended.task
            else:
                # The task can end in a turn before ours; how is told by its state, not as this message's error.
                with contextlib.suppress(errors.OperationUnsupported):
                    await self._watching.outcome(admission, None)
        task = task_of(await self._view(context.caller, view.task_id))
        return task if task.status.state.terminal else None

    async def _view(self, caller: str, task_id: str) -> TaskView:
        return await read_view(self._store, caller, task_id)


def _canceled(view: TaskView, *, stopped: bool) -> StatusUpdate:
    metadata: dict[str, object] = {"cancel_reason": "requested"}
    if not stopped:
        metadata["stopped"] = False
    return StatusUpdate(view.task_id, view.context_id, Status(State.CANCELED, 0), metadata)


def _too_late(task_id: str, state: str) -> errors.TaskNotCancelable:
    return errors.TaskNotCancelable(f"Task {task_id} has ended: {state}.", details={"taskId": task_id, "state": state})
