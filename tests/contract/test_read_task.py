"""read_task: one consistent answer, from which a follower goes on without gap or repeat."""

from __future__ import annotations

import asyncio

from stores import Store
from stores.keys import ContextRef, new_task_id
from stores.tasks import READ_MOST
from tests.contract.builders import CALLER, eventually, finish, running, view, with_limits


async def test_what_is_not_there_or_not_an_id_is_nothing(store: Store) -> None:
    assert await store.tasks.read_task(CALLER, new_task_id(ContextRef.of(CALLER, "ctx"))) is None
    assert await store.tasks.read_task(CALLER, "not an id; DEL *") is None
    assert await store.tasks.read_task(CALLER, "") is None


async def test_another_callers_task_is_not_there(store: Store) -> None:
    ticket = await running(store)
    assert await store.tasks.read_task("0" * 32, ticket.task_id) is None


async def test_a_task_is_found_by_its_id_alone(store: Store) -> None:
    ticket = await running(store)
    seen = await view(store, ticket)
    assert (seen.context_id, seen.cid) == ("ctx", ticket.context.cid)
    assert await store.tasks.read_task(CALLER, ticket.task_id) == seen


async def test_documents_come_back_as_they_went_in(store: Store) -> None:
    doc = '{"parts":[],"none":{},"text":"h\\u00e9 \U0001f600 \x01","big":12345678901234567890}'
    ticket = await running(store, doc=doc)
    assert (await view(store, ticket)).doc == doc
    await store.turns.append_events(ticket, 2, [("artifact", "", doc)])
    assert (await view(store, ticket)).entries[-1].doc == doc


async def test_r30_entries_after_a_cursor_follow_it_without_gap_or_repeat(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("artifact", "", str(number)) for number in range(5)])
    for cursor, expected in (("1-1", 5), ("1-3", 3), ("1-6", 0), ("9-9", 0)):
        assert len((await view(store, ticket, after=cursor)).entries) == expected


async def test_r30_a_follower_that_reads_while_events_flow_sees_each_once(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])

    async def write() -> None:
        for seq in range(2, 202, 2):
            await fleet[0].turns.append_events(ticket, seq, [("artifact", "", ""), ("artifact", "", "")])
        await finish(fleet[0], ticket, seq=202)

    async def follow(store: Store) -> list[str]:
        seen: list[str] = []
        cursor = "0-0"
        while True:
            now = await view(store, ticket, after=cursor)
            seen += [entry.id for entry in now.entries]
            cursor = seen[-1] if seen else cursor
            if now.phase == "closed" and cursor == now.last:
                return seen

    _, *followers = await asyncio.gather(write(), *(follow(store) for store in fleet[1:]))
    assert followers == [[f"1-{seq}" for seq in range(1, 203)]] * 3


async def test_r31_the_end_is_seen_exactly_once_by_who_read_the_snapshot_before_it(store: Store) -> None:
    ticket = await running(store)
    snapshot = await view(store, ticket)
    await finish(store, ticket)
    tail = await view(store, ticket, after=snapshot.last)
    assert [(entry.id, entry.kind) for entry in tail.entries] == [("1-2", "status")]
    assert (tail.phase, tail.last) == ("closed", "1-2")
    assert (await view(store, ticket, after=tail.last)).entries == ()


async def test_one_answer_has_at_most_so_many_entries_and_the_next_goes_on(store: Store) -> None:
    ticket = await running(store)
    events = [("artifact", "", "")] * READ_MOST
    await store.turns.append_events(ticket, 2, events)
    first = await view(store, ticket)
    assert len(first.entries) == READ_MOST
    rest = await view(store, ticket, after=first.entries[-1].id)
    assert [entry.id for entry in rest.entries] == [rest.last]


async def test_r33_a_closed_tasks_log_lapses_before_its_document(store: Store) -> None:
    brief = with_limits(store, log_ms=30)
    ticket = await running(brief)
    await store.turns.append_events(ticket, 2, [("artifact", "", "a")])
    await finish(brief, ticket, seq=3)

    async def lapsed() -> bool:
        return not (await view(store, ticket, after="1-1")).entries

    await eventually(lapsed)
    seen = await view(store, ticket)
    assert (seen.phase, seen.doc, seen.cursor, seen.last) == ("closed", '{"done":1}', "1-3", "1-3")


async def test_read_message_tells_how_far_a_message_is(store: Store) -> None:
    ticket = await running(store)
    record = await store.tasks.read_message(ticket.context, ticket.mid)
    assert record is not None
    assert (record.task_id, record.status, record.reply, record.error) == (ticket.task_id, "running", "", "")
    assert await store.tasks.read_message(ticket.context, "0" * 32) is None
