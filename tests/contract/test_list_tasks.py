"""list_tasks: ordered pages, exact totals, at the same price among few and among many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stores import Store
from stores.keys import ContextRef
from stores.records import Admitted, Limits
from tests.contract.builders import CALLER, admission, admit, eventually, finish, joining, running, sweeping, waiting

CONTEXT = ContextRef.of(CALLER, "ctx")


async def pages(store: Store, size: int = 2, **filters: Any) -> list[str]:
    """Every id from the first page to the last."""
    found: list[str] = []
    before = ""
    while True:
        page = await store.tasks.list_tasks(CALLER, before=before, size=size, **filters)
        found += [task.task_id for task in page.tasks]
        before = page.position
        if not before:
            return found


async def next_ms(store: Store) -> int:
    """A moment later than everything stored so far, by the store's own clock."""
    start = await _now(store)

    async def later() -> bool:
        return await _now(store) > start

    await eventually(later)
    return start + 1


async def _now(store: Store) -> int:
    seconds, micros = await store.client.call("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def closed(store: Store, **changes: Any) -> str:
    ticket = await running(store, **changes)
    await finish(store, ticket)
    return ticket.task_id


async def test_nothing_is_an_empty_page(store: Store) -> None:
    page = await store.tasks.list_tasks(CALLER)
    assert (page.tasks, page.total, page.position) == ((), 0, "")


async def test_pages_are_newest_first_and_complete(store: Store) -> None:
    made = []
    for number in range(7):
        if number % 3:
            made.append(await closed(store, context_id=f"c{number}"))
        else:
            made.append((await waiting(store, context_id=f"c{number}")).task_id)
        await next_ms(store)
    for size in (1, 2, 3, 7, 50):
        assert await pages(store, size) == made[::-1]
    first = await store.tasks.list_tasks(CALLER, size=7)
    assert (first.total, first.position) == (7, "")
    assert [task.at_ms for task in first.tasks] == sorted((task.at_ms for task in first.tasks), reverse=True)


async def test_totals_are_exact_for_every_filter(store: Store) -> None:
    for number in range(3):
        await closed(store, message_id=f"a{number}")
    await waiting(store, message_id="b")
    await closed(store, context_id="other")
    middle = await next_ms(store)
    await waiting(store, context_id="other", message_id="c")
    await closed(store, context_id="third")
    other = ContextRef.of(CALLER, "other")
    wanted: list[tuple[dict[str, Any], int]] = [
        ({}, 7),
        ({"context": CONTEXT}, 4),
        ({"context": other}, 2),
        ({"state": "completed"}, 5),
        ({"state": "input_required"}, 2),
        ({"state": "working"}, 0),
        ({"context": CONTEXT, "state": "completed"}, 3),
        ({"context": other, "state": "input_required"}, 1),
        ({"after_ms": middle}, 2),
        ({"after_ms": middle, "state": "completed"}, 1),
        ({"after_ms": middle, "context": CONTEXT}, 0),
        ({"context": ContextRef.of(CALLER, "never")}, 0),
    ]
    for filters, total in wanted:
        page = await store.tasks.list_tasks(CALLER, size=1, **filters)
        assert page.total == total, filters
        assert len(await pages(store, 1, **filters)) == total, filters


async def test_another_callers_tasks_are_not_listed(store: Store) -> None:
    await running(store)
    assert (await store.tasks.list_tasks("0" * 32)).total == 0
    assert (await store.tasks.list_tasks("0" * 32, context=ContextRef.of("0" * 32, "ctx"))).total == 0


async def test_a_state_prefix_is_not_a_state(store: Store) -> None:
    await waiting(store)
    assert (await store.tasks.list_tasks(CALLER, state="input")).total == 0


async def test_every_state_change_moves_the_task_and_never_doubles_it(store: Store) -> None:
    task = await waiting(store)
    reply = await admit(store, joining(task))
    ticket = getattr(reply, "ticket", None)
    assert ticket is not None
    for state in ("working", "thinking", "working"):
        seq = int((await store.tasks.list_tasks(CALLER)).tasks[0].last.split("-")[1]) + 1
        await store.turns.append_events(ticket, seq, [("status", state, "{}")])
        for filters in ({}, {"context": CONTEXT}, {"state": state}):
            page = await store.tasks.list_tasks(CALLER, **filters)
            assert (page.total, page.tasks[0].state) == (1, state)
    assert (await store.tasks.list_tasks(CALLER, state="input_required")).total == 0


async def test_paging_while_tasks_move_repeats_none_and_misses_none_that_rested(store: Store) -> None:
    made = []
    for number in range(12):
        made.append((await waiting(store, context_id=f"c{number}")).task_id)
        await next_ms(store)
    found: list[str] = []
    before = ""
    moved = [2, 9, 4]
    while True:
        page = await store.tasks.list_tasks(CALLER, before=before, size=3)
        found += [task.task_id for task in page.tasks]
        before = page.position
        if not before:
            break
        number = moved.pop()
        await running(store, context_id=f"c{number}", task_id=made[number], named=True, message_id="again")
        await closed(store, context_id=f"new-{number}")
    assert len(found) == len(set(found))
    assert set(made) - set(found) <= {made[2], made[4], made[9]}


async def test_concurrent_turns_keep_the_totals_exact(fleet: list[Store]) -> None:
    async def turn(number: int) -> None:
        store = fleet[number % 4]
        ticket = await running(store, context_id=f"c{number}", worker=f"w{number % 4}")
        if number % 3:
            await finish(store, ticket, *(("input_required", "waiting") if number % 3 == 1 else ()))

    await asyncio.gather(*(turn(number) for number in range(90)))
    for state in ("working", "input_required", "completed"):
        assert (await fleet[0].tasks.list_tasks(CALLER, state=state)).total == 30
    assert len(await pages(fleet[0], 20)) == 90


@pytest.mark.parametrize("limits", [Limits(task_ms=80, message_ms=40)])
async def test_closed_tasks_leave_the_listing_when_they_lapse(store: Store) -> None:
    for number in range(5):
        await closed(store, context_id=f"c{number}")
    rests = await waiting(store)

    async def only_the_open_one() -> bool:
        page = await store.tasks.list_tasks(CALLER)
        assert page.total >= len(page.tasks) >= 1
        return page.total == 1 and (await store.tasks.list_tasks(CALLER, state="completed")).total == 0

    await eventually(only_the_open_one)
    assert await pages(store) == [rests.task_id]
    assert await store.client.call("ZCARD", store.keys.index(CALLER)) == 1


@pytest.mark.usefixtures("one_node")
async def test_much_that_lapsed_is_pruned_in_bounded_steps(store: Store) -> None:
    """A day's tasks lapse over night; the first listing of the morning must not hold Redis up."""
    rests = await waiting(store)
    index = store.keys.index(CALLER)
    old = [f"{number:013d}|{number:08d}-0000-8000-8000-000000000000" for number in range(1, 1301)]
    await store.client.call("ZADD", index, *[part for at in old for part in (0, f"e|completed|{at}")])
    before = await calls(store, "list_page")
    page = await store.tasks.list_tasks(CALLER)
    assert (page.total, page.tasks[0].task_id) == (1, rests.task_id)
    assert await calls(store, "list_page") - before == 3
    assert await store.client.call("ZCARD", index) == 1


@pytest.mark.parametrize("limits", [Limits(context_ms=150, task_ms=100_000)])
async def test_abandoned_open_tasks_leave_the_listing_when_they_lapse(store: Store) -> None:
    """Also those that no page meets: the index of a caller that never rests would keep them for ever."""
    for number in range(3):
        await waiting(store, context_id=f"idle-{number}")

    async def only_the_new_one() -> bool:
        await finish(store, await running(store, context_id="busy", message_id=f"m{await _now(store)}"))
        return int(await store.client.call("ZCARD", f"{store.keys.index(CALLER)}:lapse")) == 0

    await eventually(only_the_new_one)
    assert (await store.tasks.list_tasks(CALLER, state="input_required")).total == 0


@pytest.mark.parametrize("limits", [Limits(context_ms=400)])
async def test_an_open_task_stays_listed_while_its_context_has_turns(store: Store) -> None:
    task = await waiting(store)
    start = await _now(store)

    async def long_after() -> bool:
        await finish(store, await running(store, message_id=f"m{await _now(store)}"))
        return await _now(store) - start > 900

    await eventually(long_after)
    assert (await store.tasks.list_tasks(CALLER, state="input_required")).tasks[0].task_id == task.task_id


async def test_a_task_that_vanished_is_dropped_from_the_page_and_the_total(store: Store) -> None:
    task = await waiting(store)
    rests = await waiting(store, context_id="other")
    await store.client.call("DEL", store.keys.task(CONTEXT.tag, CALLER, task.task_id))
    page = await store.tasks.list_tasks(CALLER)
    assert ([each.task_id for each in page.tasks], page.total) == ([rests.task_id], 1)
    assert (await store.tasks.list_tasks(CALLER, state="input_required")).total == 1


@pytest.mark.usefixtures("one_node")
async def test_a_page_costs_the_same_among_few_and_among_many(store: Store) -> None:
    async def cost(**filters: Any) -> dict[str, int]:
        await store.client.call("CONFIG", "RESETSTAT")
        page = await store.tasks.list_tasks(CALLER, size=5, **filters)
        assert len(page.tasks) == 5
        stats = await store.client.call("INFO", "commandstats")
        return {
            name: facts["calls"] for name, facts in stats.items() if not name.endswith(("config|resetstat", "info"))
        }

    wanted: list[dict[str, Any]] = [{}, {"context": CONTEXT}, {"state": "completed"}]
    for number in range(8):
        await closed(store, message_id=f"m{number}")
    few = [await cost(**filters) for filters in wanted]
    for number in range(300):
        await closed(store, message_id=f"more-{number}")
    assert [await cost(**filters) for filters in wanted] == few
    assert all("cmdstat_scan" not in each and "cmdstat_keys" not in each for each in few)


async def test_an_admission_that_was_refused_is_not_listed(store: Store) -> None:
    assert (await admit(store, admission(named=True))).__class__.__name__ == "Refused"
    assert (await store.tasks.list_tasks(CALLER)).total == 0


async def calls(store: Store, name: str) -> int:
    """How often a listing script ran: each run asks for the time once."""
    assert name == "list_page"
    stats = await store.client.call("INFO", "commandstats")
    return int(stats.get("cmdstat_time", {"calls": 0})["calls"])


@pytest.mark.usefixtures("one_node")
async def test_a_listing_among_turns_that_begin_and_end_misses_and_doubles_nothing(fleet: list[Store]) -> None:
    """A task moves from line to line in one step with its turn, also between a context's list and its listing."""
    begun = 0
    over = asyncio.Event()

    async def turns(store: Store, name: str) -> None:
        nonlocal begun
        for number in range(20):
            ticket = await running(store, context_id=name, message_id=f"m{number}")
            begun += 1
            if number % 2:
                await finish(store, ticket)
                continue
            await finish(store, ticket, "input_required", "waiting")
            answer = await admit(store, joining(ticket.view, f"a{number}"))
            assert isinstance(answer, Admitted)
            await finish(store, answer.ticket)

    async def look(store: Store, **filters: Any) -> None:
        before = 0
        while not over.is_set():
            page = await store.tasks.list_tasks(CALLER, size=100, **filters)
            ids = {task.task_id for task in page.tasks}
            assert page.total == len(page.tasks) == len(ids)
            assert page.total >= before
            before = page.total

    async def walk() -> None:
        try:
            await asyncio.gather(turns(fleet[0], "ctx"), turns(fleet[1], "other"))
        finally:
            over.set()

    await asyncio.gather(walk(), look(fleet[2]), look(fleet[3], context=CONTEXT))
    assert (await fleet[0].tasks.list_tasks(CALLER)).total == begun == 40
    assert (await fleet[0].tasks.list_tasks(CALLER, context=CONTEXT)).total == 20


@pytest.mark.parametrize("limits", [Limits(context_ms=150, task_ms=100_000)])
async def test_turns_that_nobody_ever_ended_leave_the_listing_though_nobody_reads_it(store: Store) -> None:
    """Nothing says when their tasks lapse, as long as they run; the whole fleet may have been away for longer."""
    for number in range(3):
        await running(store, context_id=f"lost-{number}")

    async def pruned() -> bool:
        reply = await admit(store, sweeping("busy", f"m{await _now(store)}"))
        assert isinstance(reply, Admitted)
        await finish(store, reply.ticket)
        await store.settled(20)
        return int(await store.client.call("ZLEXCOUNT", store.keys.index(CALLER), "[a|", "(a|}")) == 0

    await eventually(pruned)
    assert await store.client.call("ZCARD", f"{store.keys.index(CALLER)}:lapse") == 0
