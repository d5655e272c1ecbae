"""What an operator changes: each change is one of the store's own operations, proven by fence and incarnation.

cancel, worker alive    as a caller's cancel: marked, and its worker stops it
cancel, idle task       a turn of its own, given to a live worker, which finds it at its next beat
forced, or nobody runs  the turn is taken under a new fence and closed; whoever ran it can write nothing any more
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any, Literal

from server.commands.admin.opening import Opened
from server.commands.admin.workers import is_alive
from server.protocol import documents
from server.protocol.folding import fold
from server.protocol.model import Message, Part, Role, State, Status, StatusUpdate
from server.turns.record import Asked, dump_asked, task_of
from stores.keys import ContextRef, DeliveryRef
from stores.records import Admission, Admitted, Finish, Finished, InFlight, Queued, TaskView, Ticket

LOOK_SECONDS = 0.1
TRIES = 10


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a task: `word` is its state, or `unknown`, `asked` (nobody has stopped it yet), `queued`."""

    word: str
    did: bool

    @property
    def code(self) -> int:
        return 0 if self.did else 1


class Operator:
    """One command's hands: an incarnation of its own, which the fleet would recover from as from any worker."""

    def __init__(self, fleet: Opened, *, wait_s: float) -> None:
        self.id = f"admin-{os.getpid()}-{secrets.token_hex(8)}"
        self._fleet = fleet
        self._store = fleet.store
        self._wait_s = wait_s

    async def leave(self) -> None:
        """Signs off, since taking a turn put us on the fleet's list."""
        await self._store.fleet.leave_fleet(self.id)

    async def cancel(self, caller: str, task_id: str, *, force: bool) -> Ending:
        """Ends a task as its caller would; with `force` also where nobody stops it."""
        for _ in range(TRIES):
            view = await self._store.tasks.read_task(caller, task_id)
            if view is None:
                return Ending("unknown", did=False)
            if view.phase == "closed":
                return Ending(view.state, did=False)
            context = ContextRef.of(caller, view.context_id)
            event = _status(view, State.CANCELED, {"cancel_reason": "operator"})
            reply = await self._request(context, view, event)
            match reply.word:
                case "canceled":
                    return Ending("canceled", did=True)
                case "requested":
                    ended = await self._await_end(caller, task_id)
                    if ended is None and not force:
                        return Ending("asked", did=False)
                    if ended is None:
                        forced = {"cancel_reason": "operator", "stopped": False}
                        ended = await self._take(context, reply.owner, reply.fence, State.CANCELED, forced)
                case "idle":
                    ended = await self._end_idle(context, view, State.CANCELED, {"cancel_reason": "operator"})
                    if ended == "asked" and force:
                        ended = None  # it has a turn now, which the next round takes
                case _:
                    ended = None
            if ended is not None:
                return Ending(ended, did=ended == "canceled")
        return Ending("changing", did=False)

    async def fail(self, caller: str, task_id: str, reason: str) -> Ending:
        """Closes a task as failed, whatever it is doing."""
        metadata = {"error_type": "operator", "error_info": reason}
        for _ in range(TRIES):
            view = await self._store.tasks.read_task(caller, task_id)
            if view is None:
                return Ending("unknown", did=False)
            if view.phase == "closed":
                return Ending(view.state, did=False)
            context = ContextRef.of(caller, view.context_id)
            held = [it for it in await self._fleet.admin.contexts([context]) if it.running == task_id]
            if held:
                # Taken without a word to its worker, which might otherwise end it as canceled first; it learns of it
                # with its next write or beat.
                if await self._take(context, held[0].owner, held[0].fence, State.FAILED, metadata, reason):
                    return Ending("failed", did=True)
                continue
            reply = await self._request(context, view, _status(view, State.FAILED, metadata, reason))
            match reply.word:
                case "canceled":
                    return Ending("failed", did=True)
                case "idle":
                    ended = await self._end_idle(context, view, State.FAILED, metadata, reason)
                case _:
                    ended = None
            if ended is not None:
                return Ending(ended, did=ended == "failed")
        return Ending("changing", did=False)

    async def _request(self, context: ContextRef, view: TaskView, event: StatusUpdate) -> Any:
        return await self._store.turns.cancel_task(
            context,
            view.task_id,
            based=view.last,
            state=event.status.state.value,
            doc=documents.dump_task(fold(task_of(view), event)),
            event=documents.dump_event(event)[1],
        )

    async def _take(
        self, context: ContextRef, owner: str, fence: str, state: State, metadata: dict[str, Any], said: str = ""
    ) -> str | None:
        """Takes the running turn from its worker and closes it; None when it moved meanwhile."""
        taken = await self._store.turns.take_over(self.id, context, owner=owner, fence=fence)
        if taken is None:
            return None
        word, ticket = taken
        if word != "taken":
            # The turn ended by itself, and this is the next one of the queue: not ours to run.
            await self._hand_on(ticket)
            return None
        return await self._finish(ticket, state, metadata, said)

    async def _end_idle(
        self, context: ContextRef, view: TaskView, state: State, metadata: dict[str, Any], said: str = ""
    ) -> str | None:
        """Gives a waiting task a turn that ends it: an agent's own, where it is a cancel and somebody can run it."""
        runner = await self._live_worker() if state is State.CANCELED else None
        what: Literal["cancel", "fail"] = "cancel" if state is State.CANCELED else "fail"
        admission = Admission(
            context=context,
            context_id=view.context_id,
            # No client can send this id; all cancels of a task are one message, ours too.
            mid=context.message(f"\0{what} {view.task_id}"),
            token=secrets.token_hex(8),
            task_id=view.task_id,
            digest="",
            input=dump_asked(Asked("cancel", None, {"reason": "operator"})),
            named=True,
            quiet=True,
        )
        match await self._store.turns.admit_turn(runner or self.id, admission):
            case Admitted(ticket) if runner is None:
                return await self._finish(ticket, state, metadata, said)
            case Admitted() | InFlight():
                return await self._await_end(context.caller, view.task_id) or "asked"
            case Queued():
                return await self._await_end(context.caller, view.task_id) or "queued"
            case _:
                return None

    async def _finish(self, ticket: Ticket, state: State, metadata: dict[str, Any], said: str) -> str | None:
        event = _status(ticket.view, state, metadata, said)
        fence, seq = ticket.view.last.split("-")
        end = Finish(
            state=state.value,
            phase="closed",
            doc=documents.dump_task(fold(task_of(ticket.view), event)),
            seq=int(seq) + 1 if fence == ticket.fence else 1,
            events=(documents.dump_event(event),),
            # The queue behind it is offered to the workers.
            take_next=False,
        )
        finished = await self._store.turns.finish_turn(ticket, end)
        if ticket.delivery:
            ref = DeliveryRef(ticket.context.caller, ticket.task_id)
            await self._store.push.release_push(self.id, ref, ticket.delivery, hand_on=True)
        return state.value if isinstance(finished, Finished) else None

    async def _hand_on(self, ticket: Ticket) -> None:
        """A turn came to us that we can't run: a live worker gets it, and finds it at its next beat."""
        runner = await self._live_worker()
        if runner is not None:
            await self._store.turns.take_over(runner, ticket.context, owner=self.id, fence=ticket.fence)

    async def _live_worker(self) -> str | None:
        now = await self._fleet.admin.now_ms()
        alive = [it for it in await self._fleet.admin.workers() if is_alive(it, now) and not it.wish]
        return min(alive, key=lambda it: len(it.turns)).id if alive else None

    async def _await_end(self, caller: str, task_id: str) -> str | None:
        """The state in which the task is closed, or waits for its caller; None when that does not come in time."""
        deadline = time.monotonic() + self._wait_s
        while True:
            task = await self._fleet.admin.task(caller, task_id)
            if task is None:
                return "unknown"
            if task.phase == "closed":
                return task.state
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(LOOK_SECONDS)


def _status(view: TaskView, state: State, metadata: dict[str, Any], said: str = "") -> StatusUpdate:
    message = None
    if said:
        message = Message(secrets.token_hex(16), Role.AGENT, (Part("text", said),), view.context_id, view.task_id)
    return StatusUpdate(view.task_id, view.context_id, Status(state, 0, message), metadata)
