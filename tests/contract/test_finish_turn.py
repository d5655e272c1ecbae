"""finish_turn: the first end stands, its repeat is success, and the context goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from stores import Store
from stores.errors import StoreFull
from stores.keys import ContextRef
from stores.records import Admitted, Finished, Limits, Lost, Replayed
from tests.contract.builders import (
    CALLER,
    admission,
    admit,
    ending,
    eventually,
    finish,
    joining,
    live,
    queued,
    roster,
    running,
    sweeping,
    ttl,
    view,
)


async def ready(store: Store) -> set[str]:
    await store.settled(20)
    return set(await store.client.call("SMEMBERS", store.keys.ready))


async def test_an_end_closes_the_task_and_the_context(store: Store) -> None:
    ticket = await running(store)
    done = await finish(store, ticket)
    assert done.next is None
    seen = await view(store, ticket, after="1-1")
    assert (seen.state, seen.phase, seen.doc, seen.at_ms) == ("completed", "closed", '{"done":1}', done.at_ms)
    assert [entry.id for entry in seen.entries] == ["1-2"]
    assert seen.cursor == seen.last == "1-2"
    assert await live(store) == set()
    assert await roster(store) == set()
    assert await store.turns.running_marks([ticket]) == [(False, False)]


async def test_r10_a_repeated_end_answers_the_same_with_the_same_next_turn(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await queued(store, message_id="m3")
    first = await store.turns.finish_turn(ticket, ending())
    second = await store.turns.finish_turn(ticket, ending())
    assert isinstance(first, Finished)
    assert first == second
    assert await store.client.call("LLEN", store.keys.queue(ticket.context)) == 1


async def test_r10_a_repeated_end_does_not_disturb_the_turn_that_came_after(store: Store) -> None:
    ticket = await running(store)
    first = await finish(store, ticket)
    after = await running(store, message_id="m2", worker="worker-2")
    assert await store.turns.finish_turn(ticket, ending()) == first
    assert await store.turns.running_marks([after]) == [(True, False)]
    # Nor does it get back a next turn that has ended or changed hands.
    await finish(store, after)
    assert await store.turns.finish_turn(ticket, ending()) == first


async def test_r10_a_repeat_is_known_after_the_same_task_went_on_and_ended(store: Store) -> None:
    ticket = await running(store)
    asking = ending("input_required", "waiting")
    first = await store.turns.finish_turn(ticket, asking)
    reply = await admit(store, joining(await view(store, ticket)), worker="worker-2")
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)
    assert await store.turns.finish_turn(ticket, asking) == first
    assert (await view(store, ticket)).state == "completed"


@pytest.mark.parametrize("limits", [Limits(), Limits(message_ms=0)])
async def test_r10_a_repeated_direct_reply_is_finished_too(store: Store) -> None:
    ticket = await running(store)
    end = ending(reply='{"text":"hi"}')
    first = await store.turns.finish_turn(ticket, end)
    await running(store, message_id="m2")
    assert isinstance(first, Finished)
    assert await store.turns.finish_turn(ticket, end) == first


async def test_r10_a_next_turn_adopted_meanwhile_is_not_given_out_again(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await finish(store, ticket)
    assert await store.turns.take_over("worker-1", ticket.context, owner="worker-1") is not None
    again = await store.turns.finish_turn(ticket, ending())
    assert isinstance(again, Finished)
    assert again.next is None


async def test_stale_finishers_are_lost_and_told_the_state(store: Store) -> None:
    ticket = await running(store)
    for stale in (
        replace(ticket, fence="7"),
        replace(ticket, worker="worker-2"),
        replace(ticket, mid="0" * 32),
    ):
        assert await store.turns.finish_turn(stale, ending("failed")) == Lost("working")
    assert (await view(store, ticket)).phase == "open"


async def test_r11_a_late_finisher_cannot_overwrite_its_successor(store: Store) -> None:
    ticket = await running(store)
    taken = await store.turns.take_over("worker-2", ticket.context, owner="worker-1")
    assert taken is not None
    assert await store.turns.finish_turn(ticket, ending(session="late")) == Lost("working")
    await finish(store, taken[1], "failed", session="kept")
    assert await store.turns.finish_turn(ticket, ending(session="late")) == Lost("failed")
    following = await running(store, message_id="m2")
    assert following.session == "kept"


async def test_r18_of_all_ends_at_once_exactly_one_stands(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    taken = await fleet[1].turns.take_over("worker-2", ticket.context, owner="worker-1")
    assert taken is not None
    replies = await asyncio.gather(
        *(
            store.turns.finish_turn(holder, ending(state, seq=3))
            for store in fleet
            for holder, state in ((ticket, "completed"), (taken[1], "failed"))
        )
    )
    assert Counter(type(reply) for reply in replies) == {Finished: 4, Lost: 4}
    assert (await view(fleet[0], ticket)).state == "failed"


async def test_r15_the_session_is_what_the_last_fenced_end_saved(store: Store) -> None:
    ticket = await running(store, worker="worker-1")
    await finish(store, ticket, session='{"count":1}')
    second = await running(store, worker="worker-2", message_id="m2")
    assert second.session == '{"count":1}'
    await finish(store, second, "failed")
    third = await running(store, worker="worker-3", message_id="m3")
    assert third.session == '{"count":1}'
    await finish(store, third, session="")
    assert (await running(store, message_id="m4")).session == ""


async def test_the_next_turn_sees_the_session_just_saved(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2", worker="worker-2")
    done = await finish(store, ticket, session="new")
    assert done.next is not None
    assert (done.next.task_id, done.next.session, done.next.worker) == (asked.task_id, "new", "worker-1")
    assert done.next.input == asked.input
    assert int(done.next.fence) > int(ticket.fence)
    assert await roster(store) == {f"{asked.context.text}:{asked.task_id}"}
    assert (await view(store, asked)).state == "working"


async def test_r50_a_worker_that_takes_no_more_leaves_a_hint(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    done = await finish(store, ticket, take_next=False)
    assert done.next is None
    assert await ready(store) == {asked.context.text}
    assert await roster(store) == set()
    assert await live(store) == {asked.context.text}
    # Whoever comes meanwhile queues behind: the order holds.
    await queued(store, message_id="m3")
    started = await store.turns.take_over("worker-2", asked.context, owner="")
    assert started is not None
    assert (started[0], started[1].task_id) == ("started", asked.task_id)
    assert await ready(store) == set()


async def test_without_a_queue_no_hint_is_left(store: Store) -> None:
    await finish(store, await running(store), take_next=False)
    assert await ready(store) == set()


async def test_a_direct_reply_leaves_no_task_and_is_replayed(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket, reply='{"text":"hi"}')
    assert await store.tasks.read_task(CALLER, asked.task_id) is None
    assert (await store.tasks.list_tasks(CALLER)).total == 0
    assert (await store.tasks.list_tasks(CALLER, context=asked.context)).total == 0
    assert await live(store) == set()
    again = await admit(store, replace(asked, token="other"))
    assert again == Replayed(asked.task_id, '{"text":"hi"}', "", None)
    record = await store.tasks.read_message(asked.context, asked.mid)
    assert record is not None
    assert (record.status, record.reply) == ("closed", '{"text":"hi"}')


@pytest.mark.parametrize("limits", [Limits(message_ms=0)])
async def test_without_a_cache_a_follower_elsewhere_still_learns_the_direct_reply(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2", worker="worker-2")
    done = await finish(store, ticket)
    assert done.next is not None
    await finish(store, done.next, reply='{"text":"hi"}')
    record = await store.tasks.read_message(asked.context, asked.mid)
    assert record is not None
    assert (record.task_id, record.status, record.reply) == (asked.task_id, "closed", '{"text":"hi"}')
    assert 0 < await ttl(store, store.keys.outcome(asked.context, asked.mid)) <= 60_000
    assert isinstance(await admit(store, message_id="m2"), Admitted)
    record = await store.tasks.read_message(asked.context, asked.mid)
    assert record is not None
    assert (record.status, record.reply) == ("running", "")


async def test_what_a_closed_task_leaves_lapses_by_its_class(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("artifact", "", "a")])
    await finish(store, ticket, seq=3)
    context, keys, limits = ticket.context, store.keys, store.limits
    for key, class_ms in (
        (keys.outcome(context, ticket.mid), limits.message_ms),
        (keys.task(context.tag, CALLER, ticket.task_id), limits.task_ms),
        (keys.log(context.tag, CALLER, ticket.task_id), limits.log_ms),
        (keys.context(context), limits.context_ms),
        # Shared with others: renewed when half of it is over.
        (keys.shelf(context), 2 * limits.task_ms),
        (keys.index(CALLER), 2 * limits.context_ms),
    ):
        assert class_ms - 60_000 < await ttl(store, key) <= class_ms, key


@pytest.mark.parametrize(("share", "renewed"), [(500, True), (2000, False)])
async def test_the_end_of_a_turn_that_took_a_while_renews_its_context(store: Store, share: int, renewed: bool) -> None:
    """A thousandth of the context's lifetime is a while; the beginning of a shorter turn has renewed it enough."""
    ticket, month = await running(store), store.limits.context_ms
    context = store.keys.context(ticket.context)
    await store.client.call("HSET", context, "started", ticket.started_ms - month // share)
    await store.client.call("PEXPIRE", context, 60_000)
    await finish(store, ticket)
    assert (await ttl(store, context) > 60_000) is renewed


async def test_a_waiting_task_keeps_its_document_log_and_place_as_long_as_its_context(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("artifact", "", "a")])
    await finish(store, ticket, "input_required", "waiting", seq=3)
    task = await view(store, ticket)
    context, keys = ContextRef.of(CALLER, "ctx"), store.keys
    for key in (keys.task(context.tag, CALLER, task.task_id), keys.log(context.tag, CALLER, task.task_id)):
        # Another turn of the context renews what is open in it.
        await store.client.call("PEXPIRE", key, 60_000)
    await finish(store, await running(store, message_id="m2"))
    for key in (
        keys.task(context.tag, CALLER, task.task_id),
        keys.log(context.tag, CALLER, task.task_id),
        keys.context(context),
    ):
        assert store.limits.context_ms - 60_000 < await ttl(store, key) <= store.limits.context_ms, key
    assert await live(store) == {context.text}


@pytest.mark.usefixtures("one_node")
@pytest.mark.parametrize("limits", [Limits(idle_ms=5_000)])
async def test_the_slot_of_an_idle_context_is_shorter_by_setting(store: Store) -> None:
    ticket = await running(store)
    script = "return redis.call('ZSCORE', KEYS[1], ARGV[1])"
    busy = float(await store.client.call("EVAL", script, 1, store.keys.live, ticket.context.text))
    await finish(store, ticket, "input_required", "waiting")
    idle = float(await store.client.call("EVAL", script, 1, store.keys.live, ticket.context.text))
    assert busy - ticket.started_ms == store.limits.context_ms
    assert 5_000 <= idle - ticket.started_ms < 60_000


async def test_a_full_redis_refuses_new_turns_and_lets_running_ones_end(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    await store.fleet.beat_worker("worker-1", "{}")
    await store.client.call("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(StoreFull):
            await admit(store, context_id="other")
        await store.fleet.beat_worker("worker-1", "{}")
        assert await store.fleet.reap_worker("worker-1", "2") is not None
        taken = await store.turns.take_over("worker-2", ticket.context, owner="worker-1")
        assert taken is not None
        done = await finish(store, taken[1], "failed")
        assert done.next is not None
    finally:
        await store.client.call("CONFIG", "SET", "maxmemory", 0)
    assert len(await live(store)) == 1


@pytest.mark.usefixtures("one_node")
@pytest.mark.parametrize("limits", [Limits(task_ms=60, message_ms=40)])
async def test_one_end_in_sixteen_takes_lapsed_tasks_out_of_the_indexes(store: Store) -> None:
    old = []
    for number in range(3):
        ticket = await running(store, message_id=f"old-{number}")
        await finish(store, ticket)
        old.append(store.keys.task(ticket.context.tag, CALLER, ticket.task_id))
    size = ["ZCARD", store.keys.index(CALLER)]
    assert await store.client.call(*size) == 3
    reply = await admit(store, sweeping(message_id="last"))
    assert isinstance(reply, Admitted)
    last = reply.ticket

    async def lapsed() -> bool:
        pages = await store.client.call("EXISTS", *old)
        return int(pages) == 0

    await eventually(lapsed)
    await finish(store, last)
    assert await store.client.call(*size) == 1
    assert await store.client.call("ZCARD", store.keys.shelf(last.context)) == 1
