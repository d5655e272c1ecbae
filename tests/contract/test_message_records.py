"""What is known of a message is the same wherever it stands: in the queue, with its running task, or as an outcome."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from stores import Store
from stores.admin import AdminStore
from stores.records import Admission, Admitted, Finished, InFlight, Limits, Lost, Queued, Replayed, Reused, Ticket
from tests.contract.builders import admission, admit, ending, finish, joining, queued, running, ttl, view, waiting


async def begin(store: Store, asked: Admission, worker: str = "worker-1") -> Ticket:
    reply = await admit(store, asked, worker)
    assert isinstance(reply, Admitted)
    return reply.ticket


async def status(store: Store, asked: Admission) -> str | None:
    record = await store.tasks.read_message(asked.context, asked.mid)
    assert record is None or record.task_id == asked.task_id
    return record.status if record else None


async def is_in_flight(store: Store, asked: Admission) -> None:
    """For every other call with this message, and for whoever waits for its outcome."""
    assert await admit(store, replace(asked, token="other")) == InFlight(asked.task_id)
    assert await admit(store, replace(asked, token="other", digest="another")) == Reused(asked.task_id)
    assert await status(store, asked) in ("running", "queued")


async def test_a_turn_that_begins_at_once_leaves_no_record_before_its_end(store: Store) -> None:
    asked = admission()
    message, key = (make(asked.context, asked.mid) for make in (store.keys.message, store.keys.outcome))
    assert await status(store, asked) is None
    ticket = await begin(store, asked)
    assert await store.client.call("EXISTS", message, key) == 0
    await is_in_flight(store, asked)
    await finish(store, ticket)
    assert await store.client.call("EXISTS", message, key) == 1
    assert 0 < await ttl(store, key) <= store.limits.message_ms
    assert await status(store, asked) == "closed"
    again = await admit(store, replace(asked, token="other"))
    assert isinstance(again, Replayed)
    assert (again.task_id, again.error, again.reply) == (asked.task_id, "", "")
    task = store.keys.task(asked.context.tag, asked.context.caller, asked.task_id)
    assert await store.client.call("HGET", task, "input") == "", "what is not needed any more takes no room"


async def test_r04_a_duplicate_is_in_flight_in_every_stage_of_a_turn(store: Store) -> None:
    first, asked = admission(), admission(message_id="m2")
    ticket = await begin(store, first)
    assert isinstance(await admit(store, asked), Queued)
    await is_in_flight(store, asked)
    following = (await finish(store, ticket)).next
    assert following is not None
    await is_in_flight(store, asked)
    taken = await store.turns.take_over("worker-2", asked.context, owner="worker-1")
    assert taken is not None
    await is_in_flight(store, asked)
    assert await store.turns.pass_turn(taken[1], 60_000) == "passed"
    await is_in_flight(store, asked)
    taken = await store.turns.take_over("worker-3", asked.context, owner="")
    assert taken is not None
    assert (taken[1].input, taken[1].attempt) == (asked.input, 2)
    await is_in_flight(store, asked)
    await finish(store, taken[1], seq=3)
    assert isinstance(await admit(store, replace(asked, token="other")), Replayed)


async def test_a_turn_taken_over_or_passed_on_keeps_its_message(store: Store) -> None:
    asked = admission()
    ticket = await begin(store, asked)
    taken = await store.turns.take_over("worker-2", asked.context, owner="worker-1")
    assert taken is not None
    assert (taken[1].input, taken[1].attempt, taken[1].asked_ms) == (asked.input, 2, ticket.asked_ms)
    await is_in_flight(store, asked)
    # Its own repeat finds it in other hands.
    assert isinstance(await admit(store, asked), Queued)
    assert [turn.attempt for turn in await _progress(store, asked)] == [2]
    for _ in range(2):
        assert await store.turns.pass_turn(taken[1], 60_000) == "passed"
    await is_in_flight(store, asked)
    started = await store.turns.take_over("worker-3", asked.context, owner="")
    assert started is not None
    assert (started[1].input, started[1].attempt, started[1].asked_ms) == (asked.input, 2, ticket.asked_ms)
    assert [turn.attempt for turn in await _progress(store, asked)] == [2]
    await finish(store, started[1], seq=3)
    following = await begin(store, admission(message_id="m2"))
    assert following.attempt == 1
    again = await store.turns.take_over("worker-2", asked.context, owner="worker-1")
    assert again is not None
    assert again[1].attempt == 2


async def _progress(store: Store, asked: Admission) -> list[Ticket]:
    admin = AdminStore(store.client, store.keys, store.limits)
    return await admin.progress(await admin.contexts([asked.context]))  # type: ignore[return-value]


async def test_r06_a_repeat_of_a_lost_admission_gets_its_turn_with_all_it_needs(store: Store) -> None:
    asked = admission()
    ticket = await begin(store, asked)
    again = await begin(store, asked)
    assert replace(again, hint="", view=ticket.view) == replace(ticket, hint="")
    task = await waiting(store, context_id="other")
    said = joining(task, "m2", quiet=True)
    ticket = await begin(store, said)
    again = await begin(store, said)
    assert replace(again, hint="") == replace(ticket, hint="")
    assert again.input == said.input


async def test_a_cancel_that_is_passed_on_stays_quiet(store: Store) -> None:
    task = await waiting(store)
    ticket = await begin(store, joining(task, "cancel", quiet=True))
    assert await store.turns.pass_turn(ticket, 60_000) == "passed"
    taken = await store.turns.take_over("worker-2", ticket.context, owner="")
    assert taken is not None
    seen = await view(store, taken[1])
    assert (seen.state, seen.entries) == ("input_required", task.entries)


async def test_r10_a_repeated_end_is_recognised_after_the_task_and_the_context_went_on(store: Store) -> None:
    ticket = await running(store)
    end = ending("input_required", "waiting")
    done = await store.turns.finish_turn(ticket, end)
    assert isinstance(done, Finished)
    answer = await begin(store, joining(await view(store, ticket), "m2"))
    for _ in range(2):
        assert await store.turns.finish_turn(ticket, end) == done
    assert await store.turns.append_events(answer, 3, [("status", "", "{}")]) != Lost()
    assert isinstance(await store.turns.finish_turn(answer, ending(seq=4)), Finished)
    assert await store.turns.finish_turn(ticket, end) == done
    assert await store.turns.finish_turn(replace(ticket, worker="stale"), end) == Lost("completed")


async def test_r10_a_repeated_end_with_a_direct_reply_is_recognised(store: Store) -> None:
    asked = admission()
    ticket = await begin(store, asked)
    behind = await queued(store, message_id="m2")
    end = ending(reply='{"text":"two\\nlines"}\n')
    done = await store.turns.finish_turn(ticket, end)
    assert isinstance(done, Finished)
    again = await store.turns.finish_turn(ticket, end)
    assert isinstance(again, Finished)
    assert done.next is not None
    assert again.next is not None
    assert (again.at_ms, again.next.task_id, again.next.input) == (done.at_ms, behind.task_id, behind.input)
    replay = await admit(store, replace(asked, token="other"))
    assert isinstance(replay, Replayed)
    assert (replay.reply, replay.view) == (end.reply, None)


@pytest.mark.parametrize("limits", [Limits(message_ms=0)])
async def test_r02_without_a_cache_a_message_that_runs_again_is_in_flight_again(store: Store) -> None:
    asked = admission()
    await finish(store, await begin(store, asked))
    assert await status(store, asked) == "closed"
    assert isinstance(await admit(store, asked), Replayed), "its own repeat"
    once_more = admission()
    ticket = await begin(store, once_more)
    await is_in_flight(store, once_more)
    assert await admit(store, asked) == InFlight(once_more.task_id)
    assert await store.turns.pass_turn(ticket, 60_000) == "passed"
    await is_in_flight(store, once_more)
    taken = await store.turns.take_over("worker-2", asked.context, owner="")
    assert taken is not None
    await finish(store, taken[1], seq=3)
    behind = admission(message_id="other")
    ticket = await begin(store, behind)
    again = admission()
    assert isinstance(await admit(store, again), Queued)
    await is_in_flight(store, again)


async def test_many_calls_with_one_message_begin_one_turn(fleet: list[Store]) -> None:
    asked = [admission() for _ in range(24)]
    replies = await asyncio.gather(*(admit(fleet[n % 4], one, f"w{n % 4}") for n, one in enumerate(asked)))
    [won] = [reply.ticket for reply in replies if isinstance(reply, Admitted)]
    assert [reply for reply in replies if not isinstance(reply, Admitted)] == [InFlight(won.task_id)] * 23
    ends = await asyncio.gather(*(fleet[n].turns.finish_turn(won, ending()) for n in range(4)))
    assert len({end.at_ms for end in ends if isinstance(end, Finished)}) == 1
    assert (await fleet[0].tasks.list_tasks(won.context.caller)).total == 1


async def test_whoever_asks_while_turns_begin_and_end_always_finds_the_message(fleet: list[Store]) -> None:
    """Between the running form and the outcome there is no moment without either."""
    asked = [admission(message_id=f"m{number}") for number in range(20)]
    reached = [asyncio.Event() for _ in asked]

    async def look(store: Store) -> None:
        for one, event in zip(asked, reached, strict=True):
            await event.wait()
            for _ in range(8):
                assert await status(store, one) in ("running", "closed")

    async def walk() -> None:
        for one, event in zip(asked, reached, strict=True):
            ticket = await begin(fleet[0], one)
            event.set()
            await finish(fleet[0], ticket)

    await asyncio.gather(walk(), look(fleet[1]), look(fleet[2]))


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_message_without_a_digest_is_known_as_well(store: Store, quiet: bool) -> None:
    """All cancels of a task are one message, whatever is in them, and have none."""
    task = await waiting(store)
    said = joining(task, "cancel", quiet=quiet, digest="")
    ticket = await begin(store, said)
    assert ticket.input == said.input
    assert await begin(store, said) == ticket
    assert await admit(store, replace(said, token="other")) == InFlight(said.task_id)
    assert await status(store, said) == "running"
    taken = await store.turns.take_over("worker-2", said.context, owner="worker-1")
    assert taken is not None
    assert taken[1].input == said.input
    ended = ending("canceled", seq=2 if quiet else 3)
    assert isinstance(await store.turns.finish_turn(taken[1], ended), Finished)
    assert isinstance(await store.turns.finish_turn(taken[1], ended), Finished)
    assert isinstance(await admit(store, replace(said, token="other")), Replayed)
