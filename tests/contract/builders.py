"""Admissions and endings with as little noise as the test needs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from stores import Store
from stores.keys import ContextRef, TurnRef, new_task_id
from stores.records import Admission, AdmitReply, Admitted, Finish, Finished, Limits, Queued, TaskView, Ticket

CALLER = "ca11e4" * 5 + "00"
WORKER = "worker-1"


def admission(context_id: str = "ctx", message_id: str = "m1", **changes: Any) -> Admission:
    context = ContextRef.of(changes.pop("caller", CALLER), context_id)
    values: dict[str, Any] = {
        "context": context,
        "context_id": context_id,
        "mid": context.message(message_id),
        "token": secrets.token_hex(8),
        "task_id": new_task_id(context),
        "digest": "same",
        "input": f"input of {message_id}",
        "doc": "{}",
    }
    values.update(changes)
    return Admission(**values)


def sweeping(context_id: str = "ctx", message_id: str = "m1") -> Admission:
    """A message whose turn is one of those that take what has lapsed out of the shared sets."""
    asked = admission(context_id, message_id)
    return replace(asked, task_id=f"{asked.task_id[:17]}0{asked.task_id[18:]}")


async def admit(store: Store, asked: Admission | None = None, worker: str = WORKER, **changes: Any) -> AdmitReply:
    return await store.turns.admit_turn(worker, asked or admission(**changes))


async def running(store: Store, worker: str = WORKER, **changes: Any) -> Ticket:
    reply = await admit(store, worker=worker, **changes)
    assert isinstance(reply, Admitted), reply
    return reply.ticket


def ending(state: str = "completed", phase: Any = "closed", seq: int = 2, **changes: Any) -> Finish:
    values: dict[str, Any] = {
        "state": state,
        "phase": phase,
        "doc": '{"done":1}',
        "seq": seq,
        "events": (("status", f'{{"state":"{state}"}}'),),
    }
    values.update(changes)
    return Finish(**values)


def joining(view: TaskView, message_id: str = "m2", **changes: Any) -> Admission:
    """A message that names the task."""
    values: dict[str, Any] = {"task_id": view.task_id, "named": True, "joined": "{}", "doc": "", **changes}
    return admission(view.context_id, message_id, **values)


async def queued(store: Store, worker: str = WORKER, **changes: Any) -> Admission:
    """A message that waits behind the context's running turn."""
    asked = admission(**changes)
    reply = await admit(store, asked, worker)
    assert isinstance(reply, Queued), reply
    return asked


async def finish(store: Store, ticket: Ticket, *args: Any, **changes: Any) -> Finished:
    """Ends the turn; its first free sequence number is taken from what the ticket saw."""
    fence, seq = ticket.view.last.split("-")
    changes.setdefault("seq", int(seq) + 1 if fence == ticket.fence else 1)
    reply = await store.turns.finish_turn(ticket, ending(*args, **changes))
    assert isinstance(reply, Finished), reply
    return reply


async def waiting(store: Store, worker: str = WORKER, **changes: Any) -> TaskView:
    """A task that has asked its caller something."""
    ticket = await running(store, worker, **changes)
    await finish(store, ticket, "input_required", "waiting")
    return await view(store, ticket)


async def view(store: Store, ticket: Ticket | Admission, after: str = "") -> TaskView:
    found = await store.tasks.read_task(ticket.context.caller, ticket.task_id, after)
    assert found is not None, f"task {ticket.task_id} is gone"
    return found


def with_limits(store: Store, **changes: int) -> Store:
    """The same store on the same namespace and connections, under other limits."""
    limits: Limits = replace(store.limits, **changes)  # type: ignore[arg-type]
    return Store(store.client, store.keys.namespace, limits, working="working", submitted="submitted")


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Waits until it holds, at most so long."""
    async with asyncio.timeout(seconds):
        # The condition lives in Redis, which has no event for it.
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ttl(store: Store, key: str) -> int:
    return int(await store.client.call("PTTL", key))


async def live(store: Store) -> set[str]:
    await store.settled(20)
    return set(await store.client.call("ZRANGE", store.keys.live, 0, -1))


async def roster(store: Store, worker: str = WORKER) -> set[str]:
    await store.settled(20)
    return set(turns_of(await store.client.call("SMEMBERS", store.keys.turns(worker))))


def turns_of(entries: Iterable[str] | None) -> tuple[str, ...]:
    """A roster's entries without what makes each of them one of its own on a Cluster."""
    assert entries is not None
    return tuple(TurnRef.parse(entry).text for entry in entries)
