"""cancel_task: marks what runs, closes what is queued, and leaves what is idle to a turn of its own."""

from __future__ import annotations

import asyncio
from collections import Counter

from stores import Store
from stores.keys import ContextRef, new_task_id
from stores.records import Admitted, CancelReply, InFlight, Queued, Replayed, Ticket
from tests.contract.builders import (
    CALLER,
    admission,
    admit,
    finish,
    joining,
    live,
    queued,
    running,
    ttl,
    view,
    waiting,
)


async def cancel(store: Store, task_id: str, based: str = "0-0", context_id: str = "ctx") -> CancelReply:
    return await store.turns.cancel_task(
        ContextRef.of(CALLER, context_id),
        task_id,
        based=based,
        state="canceled",
        doc='{"canceled":1}',
        event='{"state":"canceled"}',
    )


async def test_an_unknown_task_is_unknown(store: Store) -> None:
    assert (await cancel(store, new_task_id(ContextRef.of(CALLER, "ctx")))).word == "unknown"


async def test_r20_a_running_turn_is_marked_for_its_worker_to_see(store: Store) -> None:
    ticket = await running(store)
    for _ in range(2):
        reply = await cancel(store, ticket.task_id)
        assert (reply.word, reply.fence) == ("requested", ticket.fence)
    assert await store.turns.running_marks([ticket]) == [(True, True)]
    assert (await view(store, ticket)).phase == "open"


async def test_r21_an_end_that_came_first_stands(store: Store) -> None:
    ticket = await running(store)
    await finish(store, ticket)
    for _ in range(2):
        assert await cancel(store, ticket.task_id) == CancelReply("closed", state="completed")
    assert (await view(store, ticket)).state == "completed"


async def test_r21_a_mark_that_came_too_late_does_not_touch_the_next_turn(store: Store) -> None:
    ticket = await running(store)
    await cancel(store, ticket.task_id)
    await queued(store, message_id="m2")
    done = await finish(store, ticket)
    assert done.next is not None
    assert await store.turns.running_marks([done.next]) == [(True, False)]


async def test_r22_a_queued_turn_is_removed_and_closed(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    last = await queued(store, message_id="m3")
    assert (await cancel(store, asked.task_id)).word == "canceled"
    seen = await view(store, asked, after="0-0")
    assert (seen.state, seen.phase, seen.doc) == ("canceled", "closed", '{"canceled":1}')
    assert [(entry.kind, entry.doc) for entry in seen.entries] == [("status", '{"state":"canceled"}')]
    again = await admit(store, message_id="m2")
    assert isinstance(again, Replayed)
    assert (again.task_id, again.error) == (asked.task_id, "")
    assert await ttl(store, store.keys.outcome(asked.context, asked.mid)) <= store.limits.message_ms
    done = await finish(store, ticket)
    assert done.next is not None
    assert done.next.task_id == last.task_id


async def test_r18_a_repeat_of_the_cancel_that_closed_the_task_is_success(store: Store) -> None:
    await running(store)
    asked = await queued(store, message_id="m2")
    assert (await cancel(store, asked.task_id)).word == "canceled"
    assert (await cancel(store, asked.task_id)).word == "canceled"
    # One that has seen the closed task is another cancel, and too late.
    assert await cancel(store, asked.task_id, (await view(store, asked)).last) == CancelReply(
        "closed", state="canceled"
    )


async def test_r22_a_document_folded_from_an_older_task_is_not_used(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    assert (await cancel(store, asked.task_id, based="9-9")).word == "changed"
    done = await finish(store, ticket)
    assert done.next is not None
    assert done.next.task_id == asked.task_id


async def test_r22_messages_queued_for_a_canceled_task_get_the_task(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    joined = joining(await view(store, asked), "m3")
    assert isinstance(await admit(store, joined), Queued)
    assert (await cancel(store, asked.task_id)).word == "canceled"
    assert await store.client.call("EXISTS", store.keys.queue(ticket.context)) == 0
    record = await store.tasks.read_message(joined.context, joined.mid)
    assert record is not None
    assert (record.status, record.task_id) == ("closed", asked.task_id)


async def test_the_last_queued_turn_of_a_drained_context_releases_it(store: Store) -> None:
    ticket = await running(store)
    asked = await queued(store, message_id="m2")
    await finish(store, ticket, take_next=False)
    assert await live(store) == {asked.context.text}
    assert (await cancel(store, asked.task_id)).word == "canceled"
    assert await live(store) == set()


async def test_r23_an_idle_task_is_left_to_a_turn_of_its_own(store: Store) -> None:
    task = await waiting(store)
    for _ in range(2):
        assert await cancel(store, task.task_id, task.last) == CancelReply("idle")
    assert await store.tasks.read_task(CALLER, task.task_id) == task


async def test_r23_asking_for_the_end_of_an_idle_task_drops_no_answer_to_it(store: Store) -> None:
    """The asker may vanish before its turn comes; then the answer is still there to be run."""
    task = await waiting(store)
    ticket = await running(store, message_id="m2")
    answer = joining(task, "m3")
    assert isinstance(await admit(store, answer), Queued)
    assert (await cancel(store, task.task_id, task.last)).word == "idle"
    done = await finish(store, ticket)
    assert done.next is not None
    assert done.next.mid == answer.mid


async def test_r23_an_idle_cancel_and_a_new_message_take_turns(store: Store) -> None:
    task = await waiting(store)
    quiet = joining(task, "cancel", quiet=True)
    reply = await admit(store, quiet)
    assert isinstance(reply, Admitted)
    follower = await queued(store, message_id="m2", super_state="completed", super_doc="{}")
    assert await admit(store, joining(task, "cancel", quiet=True)) == InFlight(task.task_id)
    done = await finish(store, reply.ticket, "canceled")
    assert done.next is not None
    assert done.next.task_id == follower.task_id
    closed = await store.tasks.read_task(CALLER, task.task_id)
    assert closed is not None
    assert closed.state == "canceled"


async def test_r23_a_superseded_task_is_not_cancelable(store: Store) -> None:
    task = await waiting(store)
    await running(store, message_id="m2", super_state="completed", super_doc="{}")
    assert await cancel(store, task.task_id, task.last) == CancelReply("closed", state="completed")


async def test_r24_a_turn_that_would_not_stop_is_fenced_off_and_closed(store: Store) -> None:
    ticket = await running(store)
    asked = await cancel(store, ticket.task_id)
    taken = await store.turns.take_over("worker-2", ticket.context, owner=ticket.worker, fence=asked.fence)
    assert taken is not None
    await finish(store, taken[1], "canceled")
    assert await store.turns.running_marks([ticket]) == [(False, False)]
    assert isinstance(await admit(store, message_id="m2"), Admitted)


async def test_a_cancel_survives_the_death_of_the_worker_it_was_asked_of(store: Store) -> None:
    ticket = await running(store)
    await cancel(store, ticket.task_id)
    taken = await store.turns.take_over("worker-2", ticket.context, owner="worker-1")
    assert taken is not None
    assert await store.turns.running_marks([taken[1]]) == [(True, True)]


async def test_r18_cancel_and_start_at_once_never_both_win(fleet: list[Store]) -> None:
    seen: Counter[str] = Counter()
    for number in range(30):
        name = f"ctx-{number}"
        ticket = await running(fleet[0], context_id=name)
        asked = await queued(fleet[0], context_id=name, message_id="m2")
        # Connections answer in the order they were asked, so each order is asked for in turn.
        if number % 2:
            done, reply = await asyncio.gather(
                finish(fleet[1], ticket), cancel(fleet[2], asked.task_id, context_id=name)
            )
        else:
            reply, done = await asyncio.gather(
                cancel(fleet[2], asked.task_id, context_id=name), finish(fleet[1], ticket)
            )
        seen[reply.word] += 1
        following: Ticket | None = done.next
        assert reply.word == ("requested" if following else "canceled")
        assert (await view(fleet[0], asked)).phase == ("open" if following else "closed")
    assert len(seen) == 2, "the two never met in both orders"


async def test_another_callers_task_is_unknown(store: Store) -> None:
    ticket = await running(store)
    stranger = ContextRef.of("0" * 32, "ctx")
    reply = await store.turns.cancel_task(stranger, ticket.task_id, based="", state="", doc="", event="")
    assert reply.word == "unknown"
    assert await store.turns.running_marks([ticket]) == [(True, False)]
    assert admission().context.text in await live(store)
