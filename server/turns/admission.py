"""How a message is accepted: which context it belongs to, what is stored for it, and what a refusal means."""

from __future__ import annotations

import logging
import os

from server.observe import metrics, traces
from server.protocol import documents, errors
from server.protocol.digest import message_digest
from server.protocol.model import MessageJoined, PushConfig, SendMessage, State, Status, StatusUpdate, Task
from server.turns.record import Asked, Opening, dump_asked
from server.turns.worker import Worker
from stores import Store
from stores.errors import StoreError, StoreFull, StoreMisconfigured, StoreUnavailable
from stores.keys import ContextRef, DeliveryRef, derived_context_id, is_uuid, new_task_id, new_uuid, tag_of_task
from stores.records import (
    Admission,
    AdmitReply,
    Admitted,
    InFlight,
    PushEntry,
    Queued,
    Refused,
    Replayed,
    Reused,
    TaskView,
)

log = logging.getLogger(__name__)

RETRY_IN_FLIGHT_S = 1
RETRY_QUEUE_S = 1
RETRY_CONTEXTS_S = 5
RETRY_TASKS_S = 60

# A caller's own limits: the setting, what has to happen before there is room, and how soon that may be.
_CALLER_LIMITS = {
    "caller_running": ("caller_max_running_turns", "as many turns run for you as may; wait for one to end", 1),
    "caller_contexts": ("caller_max_contexts", "you hold as many conversations as you may; end one", RETRY_CONTEXTS_S),
    "caller_tasks": ("caller_max_stored_tasks", "as many of your tasks are kept as may; old ones lapse", RETRY_TASKS_S),
}


class store_errors:
    """The one place where a fault of the store becomes an answer to the caller."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        match error:
            case StoreFull():
                raise errors.Unavailable("STORE_FULL", "The store is full; try again later.", 5) from error
            case StoreUnavailable() | StoreMisconfigured():
                message = "The store can't be reached; try again shortly."
                raise errors.Unavailable("STORE_UNAVAILABLE", message, 1) from error
            case StoreError():
                log.error("a2a_server.store.corrupt error=%s", error)
                raise errors.InternalFault() from error


async def read_view(store: Store, caller: str, task_id: str) -> TaskView:
    """The caller's task as it is now; somebody else's does not exist."""
    with store_errors():
        view = await store.tasks.read_task(caller, task_id)
    if view is None:
        raise errors.TaskNotFound(details={"taskId": task_id})
    return view


def closing(task_id: str | None = None) -> errors.Unavailable:
    """This worker goes; any other one answers the same request."""
    message = "This worker is closing; send the same message again and another one will answer."
    return errors.Unavailable("DRAINING", message, 1, {"taskId": task_id} if task_id else None)


_WORDS: dict[type, str] = {
    Admitted: "admitted",
    Queued: "queued",
    Replayed: "replayed",
    InFlight: "in_flight",
    Reused: "reused",
}


class Admissions:
    """Accepts messages for one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._store = worker.store

    async def admit(
        self, caller: str, send: SendMessage, *, streaming: bool = False
    ) -> tuple[Admission, AdmitReply, Opening | None]:
        """Claims the message; a refusal is raised as the protocol's error for it. A turn that begins now with a task of
        its own comes with its opening."""
        asked, opening = await self._asked(caller, send, streaming)
        reply = await self._claim(asked)
        if isinstance(reply, Admitted) and not asked.named and opening.is_plain:
            return asked, reply, opening.at(reply.ticket.started_ms)
        return asked, reply, None

    async def admit_cancel(self, context: ContextRef, view: TaskView, asked: Asked) -> tuple[Admission, AdmitReply]:
        """Takes a turn of the context for the cancel of an idle task. All cancels of a task are one message."""
        admission = Admission(
            context=context,
            context_id=view.context_id,
            # No client can send this id: control characters are refused in theirs.
            mid=context.message(f"\0cancel {view.task_id}"),
            token=os.urandom(8).hex(),
            task_id=view.task_id,
            digest="",
            input=dump_asked(asked),
            named=True,
            quiet=True,
        )
        return admission, await self._claim(admission)

    async def _claim(self, asked: Admission) -> AdmitReply:
        worker = self._worker
        if not worker.admits:
            raise closing()
        admitting, task_id = worker.admitting, asked.task_id
        admitting[task_id] = admitting.get(task_id, 0) + 1
        try:
            with store_errors(), traces.span("nonstick.store.admit", task=task_id):
                reply = await self._store.turns.admit_turn(worker.id, asked)
        finally:
            admitting[task_id] -= 1
            if not admitting[task_id]:
                del admitting[task_id]
        metrics.ADMISSIONS.add(reply.why if isinstance(reply, Refused) else _WORDS[type(reply)])
        match reply:
            case InFlight(task_id):
                raise errors.MessageInFlight(
                    details={"taskId": task_id}, headers={"Retry-After": str(RETRY_IN_FLIGHT_S)}
                )
            case Reused(task_id):
                raise errors.MessageIdReused(details={"taskId": task_id})
            case Queued():
                worker.deliver(DeliveryRef(asked.context.caller, asked.task_id), reply.delivery)
            case Refused(why):
                raise _refusal(why, asked, self._store.limits.queue_limit)
        return reply

    async def _asked(self, caller: str, send: SendMessage, streaming: bool) -> tuple[Admission, Opening]:
        message = send.message
        named = message.task_id is not None
        context_id = await self._context_id(caller, send)
        context = ContextRef.of(caller, context_id)
        digest = message_digest(send)
        task_id = message.task_id or new_task_id(context)
        message = message.within(context_id, task_id)
        trace = traces.current()
        task = Task(task_id, context_id, Status(State.SUBMITTED, 0), history=(message,), trace=trace)
        supersedes = self._worker.agent.supersedes and not named
        mid = context.message(message.message_id)
        # The callback is kept sealed, beside the task; its secrets must not lie in the message.
        kept = SendMessage(
            message, send.wait and not streaming, send.history_length, send.accepted_output_modes, None, send.metadata
        )
        opening = Opening(task, Asked("send", kept, kept.metadata, trace))
        admission = Admission(
            context=context,
            context_id=context_id,
            mid=mid,
            token=os.urandom(8).hex(),
            task_id=task_id,
            digest=digest,
            input=dump_asked(opening.asked),
            doc="" if named else documents.dump_task(task),
            named=named,
            joined=documents.dump_event(MessageJoined(task_id, context_id, message))[1] if named else "",
            super_state=State.COMPLETED.value if supersedes else "",
            super_doc=_superseded_by(task_id) if supersedes else "",
            push=await self._push(context, mid, task_id, send.push, streaming),
        )
        return admission, opening

    async def _push(
        self, context: ContextRef, mid: str, task_id: str, config: PushConfig | None, streaming: bool
    ) -> PushEntry | None:
        """The callback that came with the message, stored in the same step that accepts it."""
        if config is None:
            return None
        if self._worker.courier is None:
            raise errors.PushUnsupported()
        try:
            return await self._worker.courier.prepare(task_id, config, every=streaming)
        except errors.ParamsInvalid:
            # A retry replays what was accepted, also when its callback would not be accepted again. Where nothing is
            # replayed, the message is a new one.
            with store_errors():
                known = await self._store.tasks.read_message(context, mid)
            if known is None or not self._store.limits.message_ms:
                raise
            return None

    async def _context_id(self, caller: str, send: SendMessage) -> str:
        message = send.message
        if message.task_id is not None:
            return await self._context_of(caller, message.task_id, message.context_id)
        if message.context_id is not None:
            return message.context_id
        # Only an id that is unique by itself makes a retry find the context of the first try.
        if is_uuid(message.message_id):
            return derived_context_id(caller, message.message_id)
        return new_uuid()

    async def _context_of(self, caller: str, task_id: str, context_id: str | None) -> str:
        """The context of a named task. Where the caller names it too and it can be right, the store checks it on
        admission without a read of ours."""
        tag = tag_of_task(task_id)
        if tag is None:
            raise errors.TaskNotFound(details={"taskId": task_id})
        if context_id is not None and ContextRef.of(caller, context_id).tag == tag:
            return context_id
        view = await read_view(self._store, caller, task_id)
        if context_id is not None and context_id != view.context_id:
            raise _mismatch(task_id)
        return view.context_id


_SUPERSEDED = documents.dump_event(StatusUpdate("", "", Status(State.COMPLETED, 0), {"superseded_by": "*"}))[1]


def _superseded_by(task_id: str) -> str:
    """The event that closes an earlier task of the context when this one, whose id is of our making, starts."""
    return _SUPERSEDED.replace("*", task_id)


def _mismatch(task_id: str) -> errors.ParamsInvalid:
    return errors.ParamsInvalid(
        f"Task {task_id} belongs to another context; leave contextId out, or send the task's own.",
        details={"taskId": task_id},
        violations=[("message.contextId", "is not the context of message.taskId")],
    )


def _refusal(why: str, asked: Admission, queue_limit: int) -> errors.A2AError:
    """The protocol's error for an admission that stored nothing."""
    task = {"taskId": asked.task_id}
    context = {"contextId": asked.context_id}
    match why:
        case "unknown":
            return errors.TaskNotFound(details=task)
        case "mismatched":
            return _mismatch(asked.task_id)
        case "closed":
            return errors.OperationUnsupported(
                f"Task {asked.task_id} has ended; send the message without taskId to begin a new task.", details=task
            )
        case "queue_full":
            message = f"{queue_limit} messages of this context wait already; send this one again when one has ended."
            return errors.LimitReached("QUEUE_FULL", message, RETRY_QUEUE_S, context)
        case "too_many":
            message = "This task has as many push notification configs as a task may have; delete one first."
            return errors.ParamsInvalid(message, details=task)
        case "open_limit":
            message = "This context has too many open tasks; answer or cancel one of them first."
            return errors.LimitReached("QUEUE_FULL", message, RETRY_CONTEXTS_S, context)
        case "caller_running" | "caller_contexts" | "caller_tasks":
            setting, what, retry_s = _CALLER_LIMITS[why]
            log.warning("a2a_server.turn.caller_limit limit=%s caller=%s", setting, asked.context.caller)
            message = f"Not accepted: {what} ({setting})."
            return errors.LimitReached("RATE_LIMIT", message, retry_s, {**context, "limit": setting})
        case _:
            log.warning("a2a_server.turn.context_limit context=%s", asked.context_id)
            message = "The server holds as many conversations as it may (max_contexts); try again when one has ended."
            return errors.LimitReached("CONTEXT_LIMIT", message, RETRY_CONTEXTS_S, context)
