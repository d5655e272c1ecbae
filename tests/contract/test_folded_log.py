"""A log of no more than a beginning and an end stands with its task; a third entry moves all of it to a stream."""

from __future__ import annotations

import asyncio

import pytest

from stores import Store
from stores.records import Appended, TaskView, Ticket
from tests.contract.builders import CALLER, admit, finish, joining, running, view, waiting


async def has_stream(store: Store, task: Ticket | TaskView) -> bool:
    return bool(await store.client.call("EXISTS", store.keys.log(task.task_id[-12:], CALLER, task.task_id)))


async def entries(store: Store, task: Ticket | TaskView, after: str = "0-0") -> list[tuple[str, str, str]]:
    seen = await store.tasks.read_task(CALLER, task.task_id, after)
    assert seen is not None
    return [(entry.id, entry.kind, entry.doc) for entry in seen.entries]


START = ("1-1", "start", "")
END = ("1-2", "status", '{"state":"completed"}')


async def test_a_turn_that_says_nothing_on_its_way_has_no_stream(store: Store) -> None:
    ticket = await running(store)
    assert await entries(store, ticket) == [START]
    await finish(store, ticket)
    assert not await has_stream(store, ticket)
    assert await entries(store, ticket) == [START, END]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("0-0", [START, END]),
        ("0-99", [START, END]),
        ("1-0", [START, END]),
        ("1-1", [END]),
        ("1-2", []),
        ("1-10", []),
        ("2-0", []),
        ("10-1", []),
    ],
)
async def test_it_is_read_from_any_place_as_a_stream_is(
    store: Store, after: str, found: list[tuple[str, str, str]]
) -> None:
    folded = await running(store)
    await finish(store, folded)
    assert await entries(store, folded, after) == found
    # The same two entries in a stream: the turn's end came together with another event of it, which is then taken out.
    other = await running(store, context_id="other")
    await finish(store, other, events=(("status", '{"state":"completed"}'), ("artifact", "x")))
    key = store.keys.log(other.context.tag, CALLER, other.task_id)
    assert await store.client.call("XDEL", key, "1-3") == 1
    assert await entries(store, other, after) == found


async def test_its_times_are_those_of_its_task(store: Store) -> None:
    ticket = await running(store)
    ended = await finish(store, ticket)
    start, end = (await view(store, ticket, after="0-0")).entries
    assert (start.at_ms, end.at_ms) == (ticket.started_ms, ended.at_ms)


async def test_a_repeated_finish_leaves_one_end(store: Store) -> None:
    ticket = await running(store)
    assert await finish(store, ticket) == await finish(store, ticket)
    assert await entries(store, ticket) == [START, END]


async def test_concurrent_ends_leave_one(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    answers = await asyncio.gather(*(finish(store, ticket) for store in fleet))
    assert len(set(answers)) == 1
    assert await entries(fleet[0], ticket) == [START, END]


async def test_an_event_on_the_way_moves_the_beginning_to_a_stream(store: Store) -> None:
    ticket = await running(store)
    for _ in range(2):
        assert isinstance(await store.turns.append_events(ticket, 2, [("artifact", "", "a")]), Appended)
    assert await has_stream(store, ticket)
    await finish(store, ticket, seq=3)
    assert await entries(store, ticket) == [START, ("1-2", "artifact", "a"), ("1-3", *END[1:])]


async def test_a_stale_writer_moves_nothing(store: Store) -> None:
    ticket = await running(store)
    await finish(store, ticket)
    await store.turns.append_events(ticket, 3, [("artifact", "", "late")])
    assert not await has_stream(store, ticket)
    assert await entries(store, ticket) == [START, END]


async def test_a_task_that_goes_on_keeps_what_it_said(store: Store) -> None:
    task = await waiting(store)
    question = ("1-2", "status", '{"state":"input_required"}')
    before = (await view_after(store, task)).entries
    assert not await has_stream(store, task)
    admitted = await admit(store, joining(task))
    seen = await view_after(store, task)
    assert await entries(store, task) == [START, question, ("2-1", "message", "{}"), ("2-2", "start", "")]
    assert seen.entries[:2] == before, "with the times they had"
    await finish(store, admitted.ticket)  # type: ignore[union-attr]  # it is admitted, or there were no start
    assert [place for place, _, _ in await entries(store, task)] == ["1-1", "1-2", "2-1", "2-2", "2-3"]


async def test_a_superseded_question_is_followed_by_its_end(store: Store) -> None:
    task = await waiting(store)
    await running(store, message_id="m2", super_state="completed", super_doc='{"by":"m2"}')
    assert await entries(store, task, after="1-1") == [
        ("1-2", "status", '{"state":"input_required"}'),
        ("2-0", "status", '{"by":"m2"}'),
    ]


async def test_a_direct_reply_leaves_no_log(store: Store) -> None:
    ticket = await running(store)
    await finish(store, ticket, reply='{"said":1}')
    assert not await has_stream(store, ticket)
    assert await store.tasks.read_task(CALLER, ticket.task_id) is None


async def view_after(store: Store, task: TaskView) -> TaskView:
    seen = await store.tasks.read_task(CALLER, task.task_id, "0-0")
    assert seen is not None
    return seen
