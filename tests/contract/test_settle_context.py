"""settle_context: hints that a failover lost are made again from the context's own keys."""

from __future__ import annotations

import pytest

from stores import Store
from stores.admin import AdminStore
from stores.keys import ContextRef
from stores.sights import ContextSight
from tests.contract.builders import CALLER, WORKER, finish, live, queued, roster, running, waiting


@pytest.fixture
def admin(store: Store) -> AdminStore:
    return AdminStore(store.client, store.keys, store.limits)


async def sight(admin: AdminStore, context_id: str = "ctx") -> ContextSight:
    [found] = await admin.contexts([ContextRef.of(CALLER, context_id)])
    return found


async def test_a_turn_is_put_back_on_its_workers_roster_and_the_worker_on_the_fleets_list(
    store: Store, admin: AdminStore
) -> None:
    ticket = await running(store)
    for key in (store.keys.turns(WORKER), store.keys.workers, store.keys.live):
        await store.client.call("DEL", key)

    assert await admin.settle_context(await sight(admin)) == "repaired"

    assert await roster(store) == {f"{ticket.context.text}:{ticket.task_id}"}
    assert await store.fleet.workers() == {WORKER: ""}
    assert await live(store) == {ticket.context.text}
    assert await admin.settle_context(await sight(admin)) == "live"


async def test_a_queue_that_nobody_runs_is_offered(store: Store, admin: AdminStore) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await finish(store, ticket, take_next=False)
    await store.settled(20)
    await store.client.call("DEL", store.keys.ready)

    assert await admin.settle_context(await sight(admin)) == "repaired"
    assert await admin.ready() == [ticket.context]


async def test_a_context_with_nothing_open_is_given_back(store: Store, admin: AdminStore) -> None:
    ticket = await running(store)
    await finish(store, ticket)
    await store.client.call("ZADD", store.keys.live, 10**15, ticket.context.text)
    await store.client.call("PEXPIRE", store.keys.live, 60_000)

    assert await admin.settle_context(await sight(admin)) == "released"
    assert await live(store) == set()


async def test_a_waiting_task_keeps_its_context_live(store: Store, admin: AdminStore) -> None:
    await waiting(store)
    assert await admin.settle_context(await sight(admin)) == "live"
    assert await admin.count_live() == 1


async def test_a_turn_that_changed_hands_meanwhile_is_left_alone(store: Store, admin: AdminStore) -> None:
    ticket = await running(store)
    before = await sight(admin)
    await store.turns.take_over("worker-2", ticket.context, owner=WORKER)

    assert await admin.settle_context(before) == "moved"
    if not store.client.apart:  # there it is left to whoever settles the former worker's list
        assert await roster(store) == set()
