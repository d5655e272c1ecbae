"""beat_worker: a counter that moves, and what a worker has to know of the fleet."""

from __future__ import annotations

import asyncio

import pytest

from stores import Store
from stores.records import Beat, Limits, Reaped
from tests.contract.builders import eventually, finish, queued, running, ttl, turns_of


async def beat(store: Store, worker: str) -> Beat:
    await store.settled(20)
    reply = await store.fleet.beat_worker(worker, f'{{"name":"{worker}"}}')
    assert isinstance(reply, Beat)
    return reply


async def test_each_beat_moves_the_counter(store: Store) -> None:
    assert [(await beat(store, "a")).counters["a"] for _ in range(3)] == ["1", "2", "3"]


async def test_a_beat_knows_the_others_their_turns_are_their_own(store: Store) -> None:
    await beat(store, "b")
    ticket = await running(store, worker="a")
    await running(store, worker="b", context_id="other")
    reply = await beat(store, "a")
    assert reply.counters == {"a": "1", "b": "1"}
    assert turns_of(reply.turns) == (f"{ticket.context.text}:{ticket.task_id}",)
    assert reply.ready == ()
    assert await store.fleet.workers() == {"a": '{"name":"a"}', "b": '{"name":"b"}'}


async def test_r09_a_turn_whose_admission_was_never_answered_is_on_the_list(store: Store) -> None:
    ticket = await running(store, worker="a")
    reply = await beat(store, "a")
    assert turns_of(reply.turns) == (f"{ticket.context.text}:{ticket.task_id}",)


async def test_a_beat_shows_contexts_that_wait_for_somebody(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await finish(store, ticket, take_next=False)
    for worker in ("a", "b"):
        assert (await beat(store, worker)).ready == (ticket.context.text,)


async def test_many_waiting_contexts_are_shown_a_few_at_a_time(store: Store) -> None:
    for number in range(20):
        ticket = await running(store, context_id=f"c{number}")
        await queued(store, context_id=f"c{number}", message_id="m2")
        await finish(store, ticket, take_next=False)
    assert len(set((await beat(store, "a")).ready)) == 16


async def test_concurrent_beats_all_count(fleet: list[Store]) -> None:
    await asyncio.gather(*(beat(store, "a") for store in fleet * 5))
    assert (await beat(fleet[0], "a")).counters["a"] == "21"


async def test_a_reaped_worker_is_told_at_every_beat(store: Store) -> None:
    await beat(store, "a")
    assert await store.fleet.reap_worker("a", "1") == ()
    for _ in range(2):
        assert isinstance(await store.fleet.beat_worker("a", "{}"), Reaped)
    assert (await beat(store, "b")).counters == {"b": "1"}


@pytest.mark.parametrize("limits", [Limits(beat_ms=40)])
async def test_a_worker_whose_beat_lapsed_is_known_without_a_counter(store: Store) -> None:
    await beat(store, "a")

    async def lapsed() -> bool:
        return (await beat(store, "b")).counters["a"] == ""

    await eventually(lapsed)
    assert (await store.fleet.workers())["a"] == ""


async def test_a_beat_lives_a_minute_and_a_turn_list_as_long_as_open_tasks(store: Store) -> None:
    await running(store, worker="a")
    await store.client.call("PEXPIRE", store.keys.turns("a"), 60_000)
    await beat(store, "a")
    assert 0 < await ttl(store, store.keys.beat("a")) <= store.limits.beat_ms
    for key in (store.keys.turns("a"), store.keys.workers):
        assert await ttl(store, key) > store.limits.context_ms - 60_000
