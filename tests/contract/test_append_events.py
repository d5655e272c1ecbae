"""append_events: fenced, repeatable, and trimmed only behind a folded document."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from stores import Store
from stores.records import Appended, Lost, Ticket
from tests.contract.builders import CALLER, admit, ending, finish, joining, running, ttl, view, waiting


def chunks(*texts: str) -> list[tuple[str, str, str]]:
    return [("artifact", "", text) for text in texts]


async def ids(store: Store, ticket: Ticket, after: str = "0-0") -> list[str]:
    return [entry.id for entry in (await view(store, ticket, after)).entries]


async def test_events_are_logged_in_order_with_ids_of_fence_and_sequence(store: Store) -> None:
    ticket = await running(store)
    reply = await store.turns.append_events(ticket, 2, chunks("a", "b"))
    assert isinstance(reply, Appended)
    assert not reply.cancel_requested
    seen = await view(store, ticket)
    assert [(entry.id, entry.kind, entry.doc) for entry in seen.entries] == [
        ("1-1", "start", ""),
        ("1-2", "artifact", "a"),
        ("1-3", "artifact", "b"),
    ]
    assert (seen.last, seen.cursor) == ("1-3", "0-0")


async def test_r12_a_repeated_append_adds_nothing_and_answers_alike(store: Store) -> None:
    ticket = await running(store)
    for _ in range(3):
        assert isinstance(await store.turns.append_events(ticket, 2, chunks("a", "b")), Appended)
    assert await ids(store, ticket) == ["1-1", "1-2", "1-3"]


async def test_r12_a_late_repeat_behind_newer_events_adds_nothing(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("status", "working", "a")])
    await store.turns.append_events(ticket, 3, [("status", "thinking", "b")], doc="folded")
    assert isinstance(await store.turns.append_events(ticket, 2, [("status", "working", "a")], doc="older"), Appended)
    seen = await view(store, ticket)
    assert (seen.state, seen.doc, seen.cursor, seen.last) == ("thinking", "folded", "1-3", "1-3")


async def test_a_repeat_that_overlaps_adds_only_what_is_new(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, chunks("a"))
    await store.turns.append_events(ticket, 2, chunks("a", "b"))
    assert [entry.doc for entry in (await view(store, ticket)).entries] == ["", "a", "b"]


async def test_concurrent_repeats_add_each_event_once(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    await asyncio.gather(*(store.turns.append_events(ticket, 2, chunks(*"abcdef")) for store in fleet * 5))
    assert await ids(fleet[0], ticket) == [f"1-{number}" for number in range(1, 8)]


async def test_a_state_moves_the_task(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("status", "thinking", "{}")])
    assert (await view(store, ticket)).state == "thinking"
    page = await store.tasks.list_tasks(CALLER, state="thinking")
    assert [task.task_id for task in page.tasks] == [ticket.task_id]
    assert (await store.tasks.list_tasks(CALLER, state="working")).total == 0


async def test_stale_writers_are_lost(store: Store) -> None:
    ticket = await running(store)
    for stale in (
        replace(ticket, fence="2"),
        replace(ticket, worker="worker-2"),
        replace(ticket, task_id="0" * 8 + ticket.task_id[8:]),
        replace(ticket, mid="0" * 32),
    ):
        assert await store.turns.append_events(stale, 2, chunks("x")) == Lost()
    assert await ids(store, ticket) == ["1-1"]


async def test_r11_after_a_take_over_only_the_new_holder_writes(store: Store) -> None:
    ticket = await running(store)
    taken = await store.turns.take_over("worker-2", ticket.context, owner="worker-1")
    assert taken is not None
    assert await store.turns.append_events(ticket, 2, chunks("late")) == Lost()
    assert isinstance(await store.turns.append_events(taken[1], 1, chunks("new")), Appended)
    assert [(entry.id, entry.doc) for entry in (await view(store, ticket)).entries] == [("1-1", ""), ("2-1", "new")]


async def test_after_its_end_a_turn_appends_no_more(store: Store) -> None:
    ticket = await running(store)
    await finish(store, ticket)
    assert await store.turns.append_events(ticket, 3, chunks("late")) == Lost()
    assert (await view(store, ticket)).last == "1-2"


async def test_r19_a_fence_issued_again_by_a_failed_over_primary_keeps_the_old_holder_out(store: Store) -> None:
    """The new primary never heard of the first answer to the task, and gives its fence to another message."""
    task = await waiting(store)
    reply = await admit(store, joining(task, "m2"))
    old = getattr(reply, "ticket", None)
    assert isinstance(old, Ticket)
    await _forget(store, old, task.last)
    reply = await admit(store, joining(task, "m3"))
    new = getattr(reply, "ticket", None)
    assert isinstance(new, Ticket)
    assert (new.fence, new.task_id, new.worker) == (old.fence, old.task_id, old.worker)
    assert await store.turns.append_events(old, 9, chunks("late")) == Lost()
    assert isinstance(await store.turns.finish_turn(old, ending(seq=9)), Lost)
    assert await store.turns.running_marks([old, new]) == [(False, False), (True, False)]
    await finish(store, new)


async def test_r19_another_incarnation_with_the_same_fence_is_kept_out(store: Store) -> None:
    first = await running(store)
    await _forget(store, first, "0-0", gone=True)
    second = await running(store, worker="worker-1b", message_id="m1")
    assert second.fence == first.fence
    assert await store.turns.append_events(first, 2, chunks("late")) == Lost()
    assert isinstance(await store.turns.finish_turn(first, ending()), Lost)
    assert (await view(store, second)).phase == "open"


async def _forget(store: Store, ticket: Ticket, last: str, *, gone: bool = False) -> None:
    """Takes the admission back, as a failover does that lost the last writes."""
    context, keys = ticket.context, store.keys
    task, log = (make(context.tag, CALLER, ticket.task_id) for make in (keys.task, keys.log))
    if gone:
        await store.client.call("DEL", keys.context(context), task, log)
        return
    await store.client.call("HSET", keys.context(context), "run", "", "run_owner", "")
    await store.client.call("HINCRBY", keys.context(context), "fence", -1)
    await store.client.call("HSET", task, "last", last, "cursor", last)
    await store.client.call("DEL", log)


async def test_a_cancel_mark_comes_back_with_the_answer(store: Store) -> None:
    ticket = await running(store)
    await store.turns.cancel_task(ticket.context, ticket.task_id, based="", state="canceled", doc="", event="")
    reply = await store.turns.append_events(ticket, 2, chunks("a"))
    assert isinstance(reply, Appended)
    assert reply.cancel_requested


@pytest.mark.parametrize("keep", [0, 3])
async def test_r33_a_folded_document_lets_the_log_be_trimmed_and_a_reader_can_tell(store: Store, keep: int) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, chunks(*"abcdefgh"))
    assert (await view(store, ticket)).trimmed == "0-0"
    await store.turns.append_events(ticket, 10, chunks("i"), doc="abcdefghi", keep=keep)
    seen = await view(store, ticket)
    assert (seen.doc, seen.cursor, seen.last, seen.entries) == ("abcdefghi", "1-10", "1-10", ())
    assert seen.trimmed == f"1-{10 - keep}"
    # Whoever read up to the mark misses nothing; whoever is behind it takes the document.
    assert await ids(store, ticket, seen.trimmed) == [f"1-{number}" for number in range(11 - keep, 11)]
    await store.turns.append_events(ticket, 11, chunks("j"))
    assert [entry.doc for entry in (await view(store, ticket)).entries] == ["j"]


async def test_without_a_document_nothing_is_trimmed(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, chunks(*"abcdefgh"), keep=1)
    assert len(await ids(store, ticket)) == 9


async def test_the_log_of_an_open_task_lives_as_long_as_its_context(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, chunks("a"))
    left = await ttl(store, store.keys.log(ticket.context.tag, CALLER, ticket.task_id))
    assert store.limits.context_ms - 60_000 < left <= store.limits.context_ms
