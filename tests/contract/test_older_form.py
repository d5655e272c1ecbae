"""What a namespace holds in form 2 of the records is served and ended, and takes its new form on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stores import Store
from stores.keys import ContextRef
from stores.records import Admitted, InFlight, Limits, Refused, Replayed, Reused, Ticket
from tests.contract.builders import (
    CALLER,
    admission,
    admit,
    finish,
    joining,
    queued,
    running,
    view,
    waiting,
    with_limits,
)

CONTEXT = ContextRef.of(CALLER, "ctx")


async def list_as_before(store: Store, *task_ids: str) -> None:
    """Makes the listings of these tasks, all there are, those of form 2."""
    await store.settled(20)
    index, shelf, call = store.keys.index(CALLER), store.keys.shelf(CONTEXT), store.client.call
    await call("DEL", index, f"{index}:lapse")
    await call("DEL", shelf)
    for task_id in task_ids:
        task = await store.tasks.read_task(CALLER, task_id)
        assert task is not None
        side = "c" if task.phase == "closed" else "o"
        place = f"{task.at_ms}|{task.task_id}|{task.state}"
        for listing in (index, shelf):
            await call("ZADD", listing, 0, f"{side}|{place}", 0, f"s|{task.state}|{task.at_ms}|{task.task_id}")
        if side == "o":
            await call("ZADD", f"{index}:lapse", task.at_ms + store.limits.context_ms, place)
    for key in (index, f"{index}:lapse", shelf):
        await call("PEXPIRE", key, store.limits.context_ms)


async def totals(store: Store, **filters: Any) -> dict[str, int]:
    found = {}
    for state in ("completed", "input_required", "submitted", "working"):
        found[state] = (await store.tasks.list_tasks(CALLER, state=state, size=1, **filters)).total
    page = await store.tasks.list_tasks(CALLER, **filters)
    assert page.total == len(page.tasks) == sum(found.values())
    return found


@pytest.mark.parametrize("first", ["caller", "context"])
async def test_tasks_of_every_phase_are_listed_and_go_on(store: Store, first: str) -> None:
    done = await running(store)
    await finish(store, done)
    idle = await waiting(store, message_id="m2")
    going = await running(store, message_id="m3")
    behind = await queued(store, message_id="m4")
    await list_as_before(store, done.task_id, idle.task_id, going.task_id, behind.task_id)
    filters: list[dict[str, Any]] = [{"context": CONTEXT}, {}]
    for chosen in filters if first == "context" else filters[::-1]:
        assert await totals(store, **chosen) == {"completed": 1, "input_required": 1, "submitted": 1, "working": 1}
    following = (await finish(store, going)).next
    assert following is not None
    assert following.task_id == behind.task_id
    await finish(store, following)
    for chosen in filters:
        assert await totals(store, **chosen) == {"completed": 3, "input_required": 1, "submitted": 0, "working": 0}
    await finish(store, await running(store, task_id=idle.task_id, named=True, joined="{}", doc="", message_id="m5"))
    for chosen in filters:
        assert await totals(store, **chosen) == {"completed": 4, "input_required": 0, "submitted": 0, "working": 0}


async def test_turns_end_right_though_nobody_listed_meanwhile(store: Store) -> None:
    going = await running(store)
    idle = await waiting(store, context_id="other")
    await list_as_before(store, going.task_id, idle.task_id)
    await know_as_before(store, going, status="running", input="hello")
    await finish(store, going)
    reply = await admit(store, joining(await view(store, going), "m2"))
    assert reply == Refused("closed")
    answered = await running(
        store, task_id=idle.task_id, named=True, joined="{}", doc="", message_id="m2", context_id="other"
    )
    assert await totals(store) == {"completed": 1, "input_required": 0, "submitted": 0, "working": 1}
    await finish(store, answered)
    assert await totals(store) == {"completed": 2, "input_required": 0, "submitted": 0, "working": 0}
    assert await store.client.call("ZCARD", f"{store.keys.index(CALLER)}:lapse") == 0


@pytest.mark.usefixtures("one_node")
async def test_a_long_listing_is_renewed_in_bounded_steps(store: Store) -> None:
    rests = await waiting(store)
    await list_as_before(store, rests.task_id)
    index = store.keys.index(CALLER)
    old = [f"{number:013d}|{number:08d}-0000-8000-8000-000000000000" for number in range(1, 1301)]
    await store.client.call(
        "ZADD", index, *[part for at in old for part in (0, f"c|{at}|completed", 0, f"s|completed|{at}")]
    )
    page = await store.tasks.list_tasks(CALLER)
    assert (page.total, page.tasks[0].task_id) == (1, rests.task_id)
    assert await store.client.call("ZRANGE", index, 0, -1) == [f"a|input_required|{rests.at_ms}|{rests.task_id}"]


@pytest.mark.parametrize("limits", [Limits(caller_tasks=3)])
async def test_they_count_against_the_callers_limit(store: Store) -> None:
    done = await running(store)
    await finish(store, done)
    idle = await waiting(store, message_id="m2")
    await list_as_before(store, done.task_id, idle.task_id)
    await finish(store, await running(store, message_id="m3"))
    assert await admit(store, message_id="m4") == Refused("caller_tasks")
    assert await admit(with_limits(store, caller_tasks=4), message_id="m4") != Refused("caller_tasks")


async def know_as_before(store: Store, ticket: Ticket, **facts: Any) -> None:
    """Makes what is known of a turn's message, and of the turn, what form 2 had of it."""
    context, keys, call = ticket.context, store.keys, store.client.call
    message, task = keys.message(context, ticket.mid), keys.task(context.tag, CALLER, ticket.task_id)
    known = {
        "task": ticket.task_id,
        "digest": "same",
        "token": "its-own",
        "attempt": 1,
        "asked": ticket.asked_ms,
        **facts,
    }
    await call("DEL", message, keys.outcome(context, ticket.mid))
    await call("HSET", message, *[part for pair in known.items() for part in pair])
    await call("PEXPIRE", message, 600_000)
    await call("HDEL", task, "turn", "input")


async def test_a_turn_that_runs_is_taken_over_and_ended(store: Store) -> None:
    asked = admission()
    ticket = await running(store, message_id="m1", task_id=asked.task_id)
    facts = {"status": "running", "input": asked.input, "fence": "1", "owner": "worker-1"}
    await know_as_before(store, ticket, **facts)
    assert await admit(store, asked) == InFlight(asked.task_id)
    repeat = await admit(store, replace(asked, token="its-own"))
    assert isinstance(repeat, Admitted)
    assert repeat.ticket.input == asked.input
    taken = await store.turns.take_over("worker-2", asked.context, owner="worker-1")
    assert taken is not None
    assert (taken[1].input, taken[1].attempt, taken[1].asked_ms) == (asked.input, 2, ticket.asked_ms)
    assert await store.turns.pass_turn(taken[1], 60_000) == "passed"
    taken = await store.turns.take_over("worker-2", asked.context, owner="")
    assert taken is not None
    assert (taken[1].input, taken[1].attempt) == (asked.input, 2)
    done = await finish(store, taken[1], seq=3)
    assert await finish(store, taken[1], seq=3) == done
    assert isinstance(await admit(store, asked), Replayed)


@pytest.mark.parametrize(("word", "reply"), [("closed", ""), ("closed", '{"text":"hi"}'), ("ended", '{"text":"hi"}')])
async def test_an_outcome_is_told_again(store: Store, word: str, reply: str) -> None:
    ticket = await running(store)
    await finish(store, ticket, reply=reply)
    await know_as_before(store, ticket, status=word, reply=reply)
    record = await store.tasks.read_message(ticket.context, ticket.mid)
    assert record is not None
    assert (record.task_id, record.status, record.reply) == (ticket.task_id, "closed", reply)
    again = await admit(store)
    if word == "ended":
        assert isinstance(again, Admitted)
        await finish(store, again.ticket)
    else:
        assert isinstance(again, Replayed)
        assert (again.task_id, again.reply) == (ticket.task_id, reply)
        assert await admit(store, digest="another") == Reused(ticket.task_id)
