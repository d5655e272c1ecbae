"""R52, two releases on one store: fields the other does not know survive; scripts of another content work beside."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from stores import Store, open_store
from stores.admin import AdminStore
from stores.keys import DeliveryRef, TurnRef
from stores.records import Admitted, Appended, Beat, Finished, Limits
from stores.scripts import Script
from tests.contract.builders import CALLER, WORKER, admission, admit, ending, finish, joining, queued, running, view
from tests.contract.push import config_of, put
from tests.support.engines import Engine

FUTURE = ("future", '{"of":["a","newer","release"]}')
OTHER = "worker-2"


@pytest.fixture
def limits() -> Limits:
    return Limits(push_configs=4)


async def records(store: Store) -> list[str]:
    """Every hash of the namespace."""
    await store.settled(20)
    keys: list[str] = []
    for node in await store.client.nodes():
        cursor = "0"
        while True:
            cursor, found = await node.call("SCAN", cursor, "MATCH", f"{store.keys.namespace}:*", "COUNT", 1000)
            kinds = await node.batch([["TYPE", key] for key in found]) if found else []
            keys += [key for key, kind in zip(found, kinds, strict=True) if kind == "hash"]
            if str(cursor) == "0":
                break
    return sorted(set(keys))


class Marked:
    """Writes what a newer release might write into every record, and sees after each step that it is still there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marked: set[str] = set()

    async def mark(self) -> None:
        for key in await records(self._store):
            await self._store.client.call("HSET", key, *FUTURE)
            self._marked.add(key)

    async def check(self, step: str, *, gone: str = "") -> None:
        left = set(await records(self._store))
        missing = {key for key in self._marked - left if not gone or gone not in key}
        assert not missing, f"{step} removed {missing}"
        for key in self._marked & left:
            assert await self._store.client.call("HGET", key, FUTURE[0]) == FUTURE[1], f"{step} lost a field of {key}"
        self._marked &= left
        await self.mark()

    @property
    def kinds(self) -> set[str]:
        return {key.split("}:")[1].split(":")[0] for key in self._marked}


async def test_fields_of_a_newer_release_survive_every_operation(store: Store) -> None:
    marked = Marked(store)
    await store.fleet.beat_worker(WORKER, '{"pid":1,"future":{"a":1}}')
    ticket = await running(store)
    await put(store, ticket)
    await marked.mark()
    behind = await queued(store, message_id="m2")
    dropped = await queued(store, message_id="m3")
    await marked.check("admit_turn")
    assert marked.kinds - {"b"} == {"c", "m", "t", "p", "beat"}
    assert ("b" in marked.kinds) == store.client.apart
    assert isinstance(await store.turns.append_events(ticket, 2, [("status", "working", "{}")], doc="{}"), Appended)
    await marked.check("append_events")
    found = await view(store, dropped)
    cancel = await store.turns.cancel_task(
        dropped.context, dropped.task_id, based=found.last, state="canceled", doc="{}", event="{}"
    )
    assert cancel.word == "canceled"
    # The outcome of a message is a record of its own.
    await marked.check("cancel_task of a queued turn", gone=":m:")
    await store.turns.cancel_task(ticket.context, ticket.task_id, based="", state="canceled", doc="{}", event="{}")
    await marked.check("cancel_task of a running turn")
    taken = await store.turns.take_over(OTHER, ticket.context, owner=WORKER)
    assert taken is not None
    await marked.check("take_over")
    ended = await store.turns.finish_turn(
        taken[1], ending("input_required", "waiting", seq=1, session='{"mine":1}', take_next=True)
    )
    assert isinstance(ended, Finished)
    assert ended.next is not None
    assert ended.next.task_id == behind.task_id
    await marked.check("finish_turn", gone=":m:")
    await finish(store, ended.next)
    reply = await admit(store, joining(await view(store, ticket), "m4"))
    assert isinstance(reply, Admitted)
    assert reply.ticket.session == '{"mine":1}'
    await marked.check("admit_turn of a follow-up", gone=":m:")
    await finish(store, reply.ticket)
    assert (await store.tasks.list_tasks(CALLER)).total == 3
    await marked.check("list_tasks")


async def test_fields_of_a_newer_release_survive_deliveries_and_the_fleet_s_operations(store: Store) -> None:
    marked = Marked(store)
    await store.fleet.beat_worker(WORKER, "{}")
    await store.fleet.beat_worker(OTHER, "{}")
    ticket = await running(store)
    await put(store, ticket)
    ref = DeliveryRef(CALLER, ticket.task_id)
    await marked.mark()

    config = await config_of(store, ticket)
    fence = await store.push.claim_push(WORKER, ref, owner=WORKER)
    assert fence is not None
    assert await store.push.settle_push(WORKER, ref, fence, config, "1-1") == "settled"
    await marked.check("settle_push")
    assert await store.push.bury_push(WORKER, ref, fence, config, "1-2", letter="{}", always=True) == "settled"
    await marked.check("bury_push")
    [letter] = await store.push.list_dead_letters()
    assert await store.push.retry_dead_letter(letter)
    await marked.check("retry_push")
    config = await config_of(store, ticket)
    assert await store.push.bury_push(WORKER, ref, fence, config, "1-2", letter="{}", always=True) == "settled"
    admin = AdminStore(store.client, store.keys, store.limits)
    [letter] = await store.push.list_dead_letters()
    assert await admin.drop_letter(letter)
    await marked.check("drop_letter")
    assert await store.push.release_push(WORKER, ref, fence, hand_on=True) == "released"
    await marked.check("release_push")
    assert await store.push.drop_push_config(ref, "a1")
    await marked.check("drop_push_config")

    beat = await store.fleet.beat_worker(WORKER, '{"pid":2}')
    assert isinstance(beat, Beat)
    await marked.check("beat_worker")
    assert (await admin.ask_drain(WORKER)) is True
    await marked.check("ask_drain")
    [context] = await admin.contexts([ticket.context])
    await admin.settle_context(context)
    await marked.check("settle_context")
    await store.fleet.settle_hint(OTHER, TurnRef(ticket.context, ticket.task_id).text)
    await marked.check("settle_hint")
    assert await store.fleet.reap_worker(WORKER, beat.counters[WORKER]) is not None
    await marked.check("reap_worker", gone=":beat:")
    await store.fleet.leave_fleet(OTHER)
    await marked.check("leave_fleet", gone=":beat:")


def of_another_release(script: Script) -> Script:
    """The same operation with another content, and so another hash."""
    body = f"{script.body}-- another release\n"
    return replace(script, body=body, sha=hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest())


@pytest.fixture
async def older(real_engine: Engine, store: Store) -> AsyncIterator[Store]:
    """A store of another release on the same namespace."""
    opened = open_store(real_engine.url, store.keys.namespace, store.limits)
    for name in ("_admit", "_append", "_finish", "_cancel", "_take_over", "_pass"):
        setattr(opened.turns, name, of_another_release(getattr(opened.turns, name)))
    yield opened
    await opened.close()


async def test_what_one_release_s_scripts_began_the_other_s_go_on_with(store: Store, older: Store) -> None:
    here = {script.sha for script in store.turns.operations}
    assert not here & {script.sha for script in older.turns.operations}
    ticket = await running(older, worker=OTHER)
    asked = admission(message_id="m2")
    await admit(store, asked)
    assert isinstance(await store.turns.append_events(ticket, 2, [("status", "working", "{}")]), Appended)
    taken = await store.turns.take_over(WORKER, ticket.context, owner=OTHER)
    assert taken is not None
    ended = await older.turns.finish_turn(taken[1], ending(seq=1))
    assert isinstance(ended, Finished)
    assert ended.next is not None
    assert ended.next.task_id == asked.task_id
    await finish(store, ended.next)
    assert [task.state for task in (await older.tasks.list_tasks(CALLER)).tasks] == ["completed", "completed"]
