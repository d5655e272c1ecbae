"""admit_turn: a message is accepted once, in order, and within the limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from stores import Store
from stores.keys import ContextRef
from stores.records import AdmitReply, Admitted, Finished, InFlight, Limits, Queued, Refused, Replayed, Reused
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
    waiting,
    with_limits,
)

DAY_MS = 86_400_000


async def test_a_first_message_is_admitted_with_all_its_worker_needs(store: Store) -> None:
    asked = admission(input="say hello")
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    ticket = reply.ticket
    assert (ticket.task_id, ticket.mid, ticket.input) == (asked.task_id, asked.mid, "say hello")
    assert (ticket.fence, ticket.attempt, ticket.session) == ("1", 1, "")
    assert (ticket.view.state, ticket.view.phase, ticket.view.context_id) == ("working", "open", "ctx")
    assert [(entry.id, entry.kind) for entry in ticket.view.entries] == [("1-1", "start")]
    assert abs(ticket.started_ms - ticket.view.at_ms) < 1000
    assert await live(store) == {asked.context.text}
    assert await roster(store) == {f"{asked.context.text}:{asked.task_id}"}


async def test_r03_a_retry_of_a_closed_message_is_replayed_while_another_turn_runs(store: Store) -> None:
    first = admission()
    reply = await admit(store, first)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)
    await running(store, message_id="m2")
    again = await admit(store, replace(first, token="other", task_id="ignored"), worker="worker-2")
    assert isinstance(again, Replayed)
    assert (again.task_id, again.reply, again.error) == (first.task_id, "", "")
    assert again.view is not None
    assert (again.view.state, again.view.doc) == ("completed", '{"done":1}')
    assert await store.client.call("EXISTS", store.keys.queue(first.context)) == 0


async def test_r04_a_duplicate_of_a_running_or_queued_message_is_in_flight(store: Store) -> None:
    first = admission()
    assert isinstance(await admit(store, first), Admitted)
    second = await queued(store, message_id="m2")
    for asked in (first, second):
        assert await admit(store, replace(asked, token="other"), worker="worker-2") == InFlight(asked.task_id)
    assert await store.client.call("LLEN", store.keys.queue(first.context)) == 1


async def test_r06_a_repeated_admission_gets_the_same_ticket(store: Store) -> None:
    asked = admission()
    first, second = await admit(store, asked), await admit(store, asked)
    assert isinstance(first, Admitted)
    assert first == second


async def test_r06_a_repeated_admission_keeps_its_place_in_the_queue(store: Store) -> None:
    await running(store)
    asked = admission(message_id="m2")
    first = await admit(store, asked)
    await queued(store, message_id="m3")
    second = await admit(store, asked)
    assert isinstance(first, Queued)
    assert isinstance(second, Queued)
    assert (first.task_id, first.place) == (second.task_id, second.place) == (asked.task_id, 1)
    assert await store.client.call("LLEN", store.keys.queue(asked.context)) == 2


@pytest.mark.parametrize("finisher", ["worker-1", "worker-2"])
async def test_r06_a_repeat_does_not_get_a_turn_that_came_out_of_the_queue_meanwhile(
    store: Store, finisher: str
) -> None:
    """Also when its own worker got it, as the next turn of the one before: it would run twice in that worker."""
    ticket = await running(store, worker=finisher)
    asked = await queued(store, message_id="m2")
    done = await finish(store, ticket)
    assert done.next is not None
    assert done.next.task_id == asked.task_id
    again = await admit(store, asked)
    assert isinstance(again, Queued)
    assert (again.task_id, again.place) == (asked.task_id, 0)


async def test_r09_a_repeat_does_not_get_a_turn_that_was_adopted_meanwhile(store: Store) -> None:
    asked = admission()
    assert isinstance(await admit(store, asked), Admitted)
    adopted = await store.turns.take_over("worker-1", asked.context, owner="worker-1")
    assert adopted is not None
    again = await admit(store, asked)
    assert isinstance(again, Queued)
    assert isinstance(await store.turns.finish_turn(adopted[1], ending()), Finished)


async def test_a_repeat_after_the_turn_ended_replays_it(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)
    assert isinstance(await admit(store, asked), Replayed)


async def test_the_same_message_id_with_other_content_is_reused(store: Store) -> None:
    asked = admission()
    await admit(store, asked)
    other = replace(asked, token="other", digest="other")
    assert await admit(store, other) == Reused(asked.task_id)


@pytest.mark.parametrize("limits", [Limits(reuse="replay")])
async def test_reused_ids_are_replayed_where_that_is_wanted(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)
    assert isinstance(await admit(store, replace(asked, token="other", digest="other")), Replayed)


async def test_two_callers_and_two_contexts_never_share_a_message(store: Store) -> None:
    replies = [
        await admit(store),
        await admit(store, caller="0" * 32),
        await admit(store, context_id="other"),
    ]
    assert [type(reply) for reply in replies] == [Admitted] * 3


async def test_dedup_storm_runs_a_message_once(fleet: list[Store]) -> None:
    context = ContextRef.of(CALLER, "ctx")

    async def one(number: int) -> AdmitReply:
        return await admit(fleet[number % 4], admission(), worker=f"worker-{number % 4}")

    replies = await asyncio.gather(*(one(number) for number in range(200)))
    kinds = Counter(type(reply) for reply in replies)
    assert kinds == {Admitted: 1, InFlight: 199}
    (admitted,) = [reply for reply in replies if isinstance(reply, Admitted)]
    assert {reply.task_id for reply in replies if isinstance(reply, InFlight)} == {admitted.ticket.task_id}
    assert await fleet[0].client.call("HGET", fleet[0].keys.context(context), "open") == f" {admitted.ticket.task_id} "


async def test_r08_two_first_messages_of_a_context_take_turns(fleet: list[Store]) -> None:
    replies = await asyncio.gather(
        admit(fleet[0], message_id="m1", worker="a"), admit(fleet[1], message_id="m2", worker="b")
    )
    assert Counter(type(reply) for reply in replies) == {Admitted: 1, Queued: 1}
    assert len(await live(fleet[0])) == 1


# --- a message that names a task -----------------------------------------------------------------------------


async def test_r07_a_message_continues_the_task_it_names(store: Store) -> None:
    task = await waiting(store)
    reply = await admit(store, joining(task, joined='{"text":"42"}'))
    assert isinstance(reply, Admitted)
    assert reply.ticket.task_id == task.task_id
    assert [(entry.kind, entry.doc) for entry in reply.ticket.view.entries] == [
        ("message", '{"text":"42"}'),
        ("start", ""),
    ]
    assert reply.ticket.view.state == "working"


async def test_r07_a_named_task_must_be_there_in_this_context_and_not_closed(store: Store) -> None:
    ticket = await running(store)
    await finish(store, ticket)
    open_task = await waiting(store, context_id="elsewhere")
    unknown = admission(message_id="m2", named=True)
    assert await admit(store, unknown) == Refused("unknown")
    assert await admit(store, replace(unknown, task_id=ticket.task_id)) == Refused("closed")
    foreign = admission("elsewhere", "m2", caller="0" * 32, named=True, task_id=open_task.task_id)
    assert await admit(store, foreign) == Refused("unknown")
    # Two contexts whose tags are equal share a slot, and nothing else.
    there = ContextRef.of(CALLER, "elsewhere")
    beside = replace(foreign, context=replace(there, cid="f" * 32))
    assert await admit(store, beside) == Refused("mismatched")
    for asked in (unknown, foreign, beside):
        assert await store.client.call("EXISTS", store.keys.message(asked.context, asked.mid)) == 0


async def test_a_queued_message_whose_task_ended_keeps_that_as_its_outcome(store: Store) -> None:
    task = await waiting(store)
    ticket = await running(store, message_id="m2")
    answer = joining(task, "m3")
    assert isinstance(await admit(store, answer), Queued)
    other = joining(task, "m4")
    assert isinstance(await admit(store, other), Queued)
    first = await finish(store, ticket)
    assert first.next is not None
    assert first.next.mid == answer.mid
    second = await finish(store, first.next)
    assert second.next is None
    again = await admit(store, replace(other, token="other"))
    assert isinstance(again, Replayed)
    assert (again.task_id, again.error) == (task.task_id, "task_closed")
    record = await store.tasks.read_message(other.context, other.mid)
    assert record is not None
    assert (record.status, record.error) == ("closed", "task_closed")


async def test_a_quiet_turn_shows_nothing_until_it_ends(store: Store) -> None:
    task = await waiting(store)
    reply = await admit(store, joining(task, "cancel", quiet=True))
    assert isinstance(reply, Admitted)
    assert (reply.ticket.view.state, reply.ticket.view.entries) == ("input_required", ())
    assert reply.ticket.view.last == task.last


# --- superseding ---------------------------------------------------------------------------------------------


async def test_a_superseding_message_closes_the_waiting_task(store: Store) -> None:
    task = await waiting(store)
    ticket = await running(store, message_id="m2", super_state="completed", super_doc='{"superseded_by":"m2"}')
    closed = await store.tasks.read_task(CALLER, task.task_id)
    assert closed is not None
    assert (closed.state, closed.phase) == ("completed", "closed")
    assert [(entry.kind, entry.doc) for entry in closed.entries] == [("status", '{"superseded_by":"m2"}')]
    assert (await view(store, ticket)).phase == "open"
    assert await admit(store, joining(task, "m3")) == Refused("closed")
    # The entry is all that tells how the task ended, so it lives as long as the task.
    log = await ttl(store, store.keys.log(ticket.context.tag, CALLER, task.task_id))
    assert DAY_MS - 60_000 < log <= DAY_MS


async def test_a_queued_superseding_message_closes_what_waits_when_it_starts(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2", super_state="completed", super_doc="{}")
    done = await finish(store, ticket, "input_required", "waiting")
    assert done.next is not None
    assert done.next.task_id == asked.task_id
    assert (await view(store, ticket)).phase == "closed"


async def test_a_plain_message_leaves_other_open_tasks_alone(store: Store) -> None:
    task = await waiting(store)
    await running(store, message_id="m2")
    still = await store.tasks.read_task(CALLER, task.task_id)
    assert still == task


# --- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [Limits(queue_limit=2)])
async def test_the_queue_has_a_limit_and_keeps_its_order(store: Store) -> None:
    ticket = await running(store)
    waiting_messages = [await queued(store, message_id=f"q{number}") for number in range(2)]
    refused = admission(message_id="q3")
    assert await admit(store, refused) == Refused("queue_full")
    assert await admit(store, replace(waiting_messages[0], token="other")) == InFlight(waiting_messages[0].task_id)
    ran = []
    while True:
        done = await finish(store, ticket)
        if done.next is None:
            break
        ticket = done.next
        ran.append(ticket.mid)
    assert ran == [asked.mid for asked in waiting_messages]
    assert isinstance(await admit(store, refused), Admitted)


@pytest.mark.parametrize("limits", [Limits(queue_limit=1, max_contexts=1)])
async def test_a_cancel_of_an_idle_task_is_refused_by_no_limit(store: Store) -> None:
    task = await waiting(store)
    await running(store, message_id="other")
    await queued(store, message_id="behind it")
    assert isinstance(await admit(store, joining(task, "cancel", quiet=True)), Queued)


async def test_arrival_order_holds_whichever_workers_admit_and_run(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    asked = [admission(message_id=f"q{number}") for number in range(12)]
    for number, message in enumerate(asked):
        await admit(fleet[number % 4], message, worker=f"worker-{number % 4}")
    ran = []
    for number in range(12):
        done = await finish(fleet[number % 4], ticket)
        assert done.next is not None
        ticket = done.next
        ran.append(ticket.mid)
    assert ran == [message.mid for message in asked]


@pytest.mark.parametrize("limits", [Limits(max_open=2)])
async def test_a_context_has_only_so_many_open_tasks(store: Store) -> None:
    task = await waiting(store, message_id="m1")
    await waiting(store, message_id="m2")
    assert await admit(store, message_id="m3") == Refused("open_limit")
    assert isinstance(await admit(store, joining(task, "m4")), Admitted)


@pytest.mark.parametrize("limits", [Limits(max_contexts=10)])
async def test_r01_the_cap_is_exact_under_concurrency(fleet: list[Store]) -> None:
    async def one(number: int) -> AdmitReply:
        return await admit(fleet[number % 4], context_id=f"ctx-{number}", worker=f"worker-{number % 4}")

    replies = await asyncio.gather(*(one(number) for number in range(500)))
    refused = [reply for reply in replies if isinstance(reply, Refused)]
    admitted = [reply.ticket for reply in replies if isinstance(reply, Admitted)]
    assert refused == [Refused("context_limit")] * 490
    assert len(admitted) == 10
    assert await live(fleet[0]) == {ticket.context.text for ticket in admitted}


@pytest.mark.parametrize("limits", [Limits(max_contexts=1)])
async def test_the_cap_is_released_by_a_terminal_outcome_and_kept_by_a_question(store: Store) -> None:
    task = await waiting(store)
    assert await admit(store, context_id="other") == Refused("context_limit")
    # A context already in is never refused: by a new message, by an answer, by one that queues.
    reply = await admit(store, joining(task))
    assert isinstance(reply, Admitted)
    await queued(store, message_id="m3")
    done = await finish(store, reply.ticket)
    assert await admit(store, context_id="other") == Refused("context_limit")
    assert done.next is not None
    await finish(store, done.next)
    assert await live(store) == set()
    assert isinstance(await admit(store, context_id="other"), Admitted)


@pytest.mark.parametrize("limits", [Limits(max_contexts=1)])
async def test_a_refused_context_leaves_nothing_behind(store: Store) -> None:
    await running(store)
    refused = admission("other")
    assert await admit(store, refused) == Refused("context_limit")
    _, keys = await store.client.call("SCAN", 0, "MATCH", f"{store.keys.prefix(refused.context.tag)}*", "COUNT", 10000)
    assert keys == []


@pytest.mark.parametrize("limits", [Limits(max_contexts=0)])
async def test_a_cap_of_zero_bounds_nothing_and_still_knows_who_is_live(store: Store) -> None:
    for number in range(20):
        await running(store, context_id=f"ctx-{number}")
    assert len(await live(store)) == 20


@pytest.mark.parametrize("limits", [Limits(max_contexts=1)])
async def test_the_cap_does_not_leak_when_a_worker_vanishes(store: Store) -> None:
    ticket = await running(store, worker="gone")
    taken = await store.turns.take_over("worker-2", ticket.context, owner="gone")
    assert taken is not None
    assert await admit(store, context_id="other") == Refused("context_limit")
    await finish(store, taken[1], "failed")
    assert isinstance(await admit(store, context_id="other"), Admitted)


@pytest.mark.parametrize("limits", [Limits(max_contexts=1, idle_ms=50)])
async def test_an_idle_context_loses_its_slot_and_reserves_again(store: Store) -> None:
    task = await waiting(store)

    async def there_is_room() -> bool:
        return isinstance(await admit(store, context_id="other"), Admitted)

    await eventually(there_is_room)
    # The dialogue stayed, but the cap is full now.
    assert await admit(store, joining(task)) == Refused("context_limit")
    other = ContextRef.of(CALLER, "other")
    taken = await store.turns.take_over("worker-2", other, owner="worker-1")
    assert taken is not None
    await finish(store, taken[1])
    assert isinstance(await admit(store, joining(task)), Admitted)
    assert await live(store) == {ContextRef.of(CALLER, "ctx").text}


@pytest.mark.usefixtures("one_node")
@pytest.mark.parametrize("limits", [Limits(max_contexts=0, idle_ms=20)])
async def test_lapsed_slots_do_not_pile_up_without_a_cap(store: Store) -> None:
    for number in range(5):
        await waiting(store, context_id=f"idle-{number}")
    deadline = max(float(score) for _, score in await _scores(store))

    async def lapsed() -> bool:
        seconds, micros = await store.client.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 > deadline

    await eventually(lapsed)
    reply = await admit(store, sweeping("new"))
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket, "input_required", "waiting")
    assert await live(store) == {reply.ticket.context.text}


async def _scores(store: Store) -> list[tuple[str, str]]:
    raw = await store.client.call(
        "EVAL", "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')", 1, store.keys.live
    )
    return list(zip(raw[::2], raw[1::2], strict=True))


# --- lifetimes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [Limits(message_ms=0)])
async def test_r02_without_a_cache_a_message_is_known_only_while_in_flight(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    assert await admit(store, replace(asked, token="other")) == InFlight(asked.task_id)
    await finish(store, reply.ticket)
    new = admission()
    reply = await admit(store, new)
    assert isinstance(reply, Admitted)
    assert reply.ticket.task_id == new.task_id != asked.task_id
    assert reply.ticket.input == new.input


@pytest.mark.parametrize("limits", [Limits(message_ms=0)])
async def test_r06_without_a_cache_a_late_repeat_still_runs_nothing_twice(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    done = await finish(store, ticket)
    assert done.next is not None
    await finish(store, done.next)
    again = await admit(store, asked)
    assert isinstance(again, Replayed)
    assert again.task_id == asked.task_id


@pytest.mark.parametrize("limits", [Limits(message_ms=40)])
async def test_a_message_record_lapses_and_its_task_stays(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)

    async def lapsed() -> bool:
        return await store.tasks.read_message(asked.context, asked.mid) is None

    await eventually(lapsed)
    assert (await view(store, asked)).phase == "closed"
    assert isinstance(await admit(store), Admitted)


@pytest.mark.usefixtures("one_node")
async def test_while_a_turn_is_open_all_it_needs_lives_as_long_as_its_context(store: Store) -> None:
    ticket = await running(store)
    waits = await queued(store, message_id="m2")
    await store.turns.append_events(ticket, 2, [("artifact", "", "a")])
    context, keys = ticket.context, store.keys
    month = store.limits.context_ms
    for key in (
        keys.context(context),
        keys.queue(context),
        keys.message(context, waits.mid),
        keys.task(context.tag, CALLER, ticket.task_id),
        keys.task(context.tag, CALLER, waits.task_id),
        keys.log(context.tag, CALLER, ticket.task_id),
        keys.workers,
    ):
        assert month - 60_000 < await ttl(store, key) <= month, key
    # What many contexts share is renewed when half of twice that is over.
    for key in (keys.live, keys.index(CALLER), keys.turns("worker-1")):
        assert 2 * month - 60_000 < await ttl(store, key) <= 2 * month, key
        await store.client.call("PEXPIRE", key, month - 1)
    await finish(store, ticket)
    for key in (keys.live, keys.index(CALLER), keys.turns("worker-1")):
        assert 2 * month - 60_000 < await ttl(store, key) <= 2 * month, key


async def test_limits_of_another_release_apply_to_its_own_calls_only(store: Store) -> None:
    tight = with_limits(store, max_contexts=1)
    await running(store)
    assert await admit(tight, context_id="other") == Refused("context_limit")
    assert isinstance(await admit(store, context_id="other"), Admitted)
