"""The operations of A2A on the turn engine: one method each, in the words of the model."""

from __future__ import annotations

import base64
import binascii
import logging

from server.protocol import documents, errors
from server.protocol.model import (
    CancelTask,
    GetTask,
    ListTasks,
    Message,
    SendMessage,
    SubscribeToTask,
    Task,
    TaskPage,
)
from server.protocol.views import trim_history
from server.turns import cursor as cursors
from server.turns.admission import Admissions, read_view, store_errors
from server.turns.canceling import Canceling
from server.turns.cursor import Cursor
from server.turns.follow import Following
from server.turns.record import task_of
from server.turns.watch import Stream, Streamed, Watching
from server.turns.worker import Worker
from stores.keys import ContextRef
from stores.records import Admission, Admitted, Queued, Replayed, TaskView

log = logging.getLogger(__name__)


class Service:
    """What the transports call."""

    def __init__(self, worker: Worker, following: Following) -> None:
        self._worker = worker
        self._store = worker.store
        self._admissions = Admissions(worker)
        self._watching = Watching(worker, following)
        self._canceling = Canceling(worker, self._admissions, self._watching)

    # --- messages --------------------------------------------------------------------------------------------

    async def send_message(self, caller: str, send: SendMessage) -> Task | Message:
        """Accepts a message; waits for the turn's end where the caller does."""
        asked, reply, opening = await self._admissions.admit(caller, send)
        match reply:
            case Admitted(ticket):
                turn = self._worker.start_turn(ticket, opening, shown=not send.wait)
                if not send.wait:
                    return trim_history(turn.task, send.history_length)
                ended = await turn.end()
                if ended.reply is not None:
                    return ended.reply
                # Without an ending of its own the turn was lost to another worker: its outcome is on record there.
                task = ended.task or await self._watching.outcome(asked, None)
            case Queued() if send.wait:
                task = await self._watching.outcome(asked, _joining(asked, send))
            case Queued():
                task = await self._task(caller, asked.task_id)
            case Replayed():
                task = _replayed(reply)
            case _:
                raise errors.InternalFault()
        return task if isinstance(task, Message) else trim_history(task, send.history_length)

    async def stream_message(self, caller: str, send: SendMessage, last_event: Cursor | None) -> Stream:
        """Accepts a message; its stream begins with the task (or is one direct Message) and ends with the turn."""
        try:
            asked, reply, opening = await self._admissions.admit(caller, send, streaming=True)
        except errors.MessageInFlight as conflict:
            # The retry of a stream that broke: it says which event it saw last, so it is joined, not refused.
            if last_event is None:
                raise
            return await self._resume(caller, conflict.details["taskId"], last_event)
        match reply:
            case Admitted(ticket):
                held = self._worker.agent.direct_replies
                turn = self._worker.start_turn(ticket, opening, shown=not held, watched=True)
                return _shown(self._watching.local(turn, held=held, new=not asked.named), send.history_length)
            case Queued():
                view = await self._view(caller, asked.task_id)
                items = self._watching.task(caller, view, asked, _joining(asked, send))
                return _shown(items, send.history_length)
            case Replayed():
                if last_event is not None and reply.view is not None:
                    return await self._resume(caller, reply.task_id, last_event)
                result = _replayed(reply)
                last = cursors.of(reply.view.last) if reply.view else cursors.START
                return _shown(_single(result, last), send.history_length)
            case _:
                raise errors.InternalFault()

    # --- tasks -----------------------------------------------------------------------------------------------

    async def get_task(self, caller: str, asked: GetTask) -> Task:
        return trim_history(await self._task(caller, asked.task_id), asked.history_length)

    async def list_tasks(self, caller: str, asked: ListTasks) -> TaskPage:
        with store_errors():
            page = await self._store.tasks.list_tasks(
                caller,
                context=ContextRef.of(caller, asked.context_id) if asked.context_id is not None else None,
                state=asked.state.value if asked.state else None,
                after_ms=asked.after_ms or 0,
                before=_position(asked.page_token),
                size=asked.page_size,
            )
        tasks = tuple(trim_history(task_of(view), asked.history_length) for view in page.tasks)
        return TaskPage(tasks, _token(page.position), asked.page_size, page.total, asked.include_artifacts)

    async def cancel_task(self, caller: str, asked: CancelTask) -> Task:
        return await self._canceling.cancel(caller, asked)

    async def subscribe(self, caller: str, asked: SubscribeToTask, last_event: Cursor | None) -> Stream:
        """Joins a task: its snapshot and what follows, or only what follows the event the caller saw last."""
        view = await self._view(caller, asked.task_id)
        if last_event is not None:
            return self._watching.after(caller, view, last_event, None)
        if view.phase == "closed":
            raise errors.OperationUnsupported(
                f"Task {asked.task_id} has ended; get it instead.", details={"taskId": asked.task_id}
            )
        # A subscription opened while the task waits for its caller is there for the next turn.
        return self._watching.task(caller, view, None, None)

    # --- helpers ---------------------------------------------------------------------------------------------

    async def _view(self, caller: str, task_id: str) -> TaskView:
        return await read_view(self._store, caller, task_id)

    async def _task(self, caller: str, task_id: str) -> Task:
        return task_of(await self._view(caller, task_id))

    async def _resume(self, caller: str, task_id: str, after: Cursor, message_id: str | None = None) -> Stream:
        view = await self._view(caller, task_id)
        return self._watching.after(caller, view, after, message_id)


def _shown(items: Stream, history_length: int | None) -> Stream:
    """The stream with its tasks' histories cut to the length the caller wants."""
    return items if history_length is None else _trimmed(items, history_length)


async def _trimmed(items: Stream, history_length: int) -> Stream:
    try:
        async for seen in items:
            if isinstance(seen.item, Task):
                yield Streamed(seen.cursor, trim_history(seen.item, history_length), seen.final)
            else:
                yield seen
    finally:
        await items.aclose()


def _joining(asked: Admission, send: SendMessage) -> str | None:
    """The message whose joining makes the following events its own, where it continues a task."""
    return send.message.message_id if asked.named else None


def _replayed(reply: Replayed) -> Task | Message:
    """The outcome a message had before."""
    if reply.error:
        raise errors.OperationUnsupported(
            f"Task {reply.task_id} ended before this message's turn came.", details={"taskId": reply.task_id}
        )
    if reply.reply:
        return documents.load_message(reply.reply)
    if reply.view is None:
        raise errors.TaskNotFound(details={"taskId": reply.task_id})
    return task_of(reply.view)


async def _single(item: Task | Message, cursor: Cursor) -> Stream:
    yield Streamed(cursor, item, True)


def _token(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=") if position else ""


def _position(token: str | None) -> str:
    if not token:
        return ""
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        at, _, task_id = text.partition("|")
        if not at.isdigit() or not task_id or "|" in task_id:
            raise ValueError(text)
    except (ValueError, binascii.Error) as error:
        raise errors.ParamsInvalid(
            "The pageToken is not one of ours; use nextPageToken of the page before as it is.",
            violations=[("pageToken", "is not a page token")],
        ) from error
    return text
