"""reap_worker, settle_hint, leave_fleet, drop_ready: how a worker goes, and how nothing of it is forgotten."""

from __future__ import annotations

import asyncio

from stores import Store
from stores.keys import ContextRef, TurnRef
from stores.records import Beat
from tests.contract.builders import finish, queued, roster, running, ttl, turns_of


async def counters(store: Store) -> dict[str, str]:
    reply = await store.fleet.beat_worker("observer", "{}")
    assert isinstance(reply, Beat)
    return reply.counters


async def test_a_worker_that_moved_since_it_was_seen_is_not_reaped(store: Store) -> None:
    await store.fleet.beat_worker("a", "{}")
    await store.fleet.beat_worker("a", "{}")
    assert await store.fleet.reap_worker("a", "1") is None
    assert isinstance(await store.fleet.beat_worker("a", "{}"), Beat)


async def test_reaping_hands_over_the_turns_and_keeps_them_until_settled(store: Store) -> None:
    first = await running(store, worker="a")
    second = await running(store, worker="a", context_id="other")
    await store.fleet.beat_worker("a", "{}")
    left = await store.fleet.reap_worker("a", "1")
    assert left is not None
    entries = {f"{ticket.context.text}:{ticket.task_id}" for ticket in (first, second)}
    assert set(turns_of(left)) == entries == await roster(store, "a")
    for text in left:
        assert (await counters(store))["a"] == ""
        taken = await store.turns.take_over("observer", TurnRef.parse(text).context, owner="a")
        assert taken is not None
        await store.fleet.settle_hint("a", text)
        await store.fleet.settle_hint("a", text)
    assert "a" not in await counters(store)
    assert await roster(store, "observer") == entries


async def test_a_repeat_brings_the_list_again(store: Store) -> None:
    ticket = await running(store, worker="a")
    await store.fleet.beat_worker("a", "{}")
    first = await store.fleet.reap_worker("a", "1")
    assert turns_of(first) == (f"{ticket.context.text}:{ticket.task_id}",)
    assert await store.fleet.reap_worker("a", "1") == first


async def test_r14_observers_that_agree_all_get_the_list_and_one_gets_the_turn(fleet: list[Store]) -> None:
    ticket = await running(fleet[0], worker="a")
    await fleet[0].fleet.beat_worker("a", "{}")

    async def recover(number: int) -> bool:
        store = fleet[number]
        left = await store.fleet.reap_worker("a", "1")
        assert left is not None
        won = [await store.turns.take_over(f"w{number}", TurnRef.parse(text).context, owner="a") for text in left]
        return any(won)

    assert sum(await asyncio.gather(*(recover(number) for number in range(4)))) == 1
    assert await fleet[0].turns.running_marks([ticket]) == [(False, False)]


async def test_a_reaper_that_died_on_the_way_leaves_the_worker_to_be_reaped_again(store: Store) -> None:
    ticket = await running(store, worker="a")
    await store.fleet.beat_worker("a", "{}")
    await store.fleet.reap_worker("a", "1")
    assert (await counters(store))["a"] == ""
    assert turns_of(await store.fleet.reap_worker("a", "")) == (f"{ticket.context.text}:{ticket.task_id}",)


async def test_the_tombstone_lasts_as_long_as_the_turn_list(store: Store) -> None:
    await store.fleet.reap_worker("a", "")
    assert await ttl(store, store.keys.tombstone("a")) > store.limits.context_ms - 60_000


async def test_a_worker_that_leaves_with_nothing_is_forgotten(store: Store) -> None:
    await store.fleet.beat_worker("a", "{}")
    for _ in range(2):
        assert await store.fleet.leave_fleet("a") == ()
    assert "a" not in await counters(store)


async def test_a_worker_that_leaves_turns_behind_stays_to_be_found(store: Store) -> None:
    ticket = await running(store, worker="a")
    await store.fleet.beat_worker("a", "{}")
    text = f"{ticket.context.text}:{ticket.task_id}"
    for _ in range(2):
        assert turns_of(await store.fleet.leave_fleet("a")) == (text,)
    assert (await counters(store))["a"] == ""
    assert turns_of(await store.fleet.reap_worker("a", "")) == (text,)


async def test_a_hint_that_was_looked_after_is_dropped(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await finish(store, ticket, take_next=False)
    assert await store.turns.take_over("b", ticket.context, owner="") is not None
    await store.fleet.drop_ready(ticket.context)
    assert await store.client.call("SMEMBERS", store.keys.ready) in ([], set())


async def test_r50_a_hint_left_while_the_former_was_looked_after_is_not_dropped(store: Store) -> None:
    """Two draining workers, one after the other; a third one that saw the first hint comes late."""
    ticket = await running(store)
    await queued(store, message_id="m2")
    await queued(store, message_id="m3")
    await finish(store, ticket, take_next=False)
    started = await store.turns.take_over("b", ticket.context, owner="")
    assert started is not None
    assert await store.turns.take_over("c", ticket.context, owner="") is None
    await finish(store, started[1], take_next=False)
    await store.fleet.drop_ready(ticket.context)
    reply = await store.fleet.beat_worker("d", "{}")
    assert isinstance(reply, Beat)
    assert reply.ready == (ticket.context.text,)


async def test_a_hint_for_a_context_that_is_no_more_is_dropped(store: Store) -> None:
    context = ContextRef.of("0" * 32, "gone")
    await store.client.call("SADD", store.keys.ready, context.text)
    await store.fleet.drop_ready(context)
    assert await store.client.call("EXISTS", store.keys.ready) == 0
