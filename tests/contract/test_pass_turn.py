"""pass_turn: a turn goes back to the head of its queue for another worker: fenced, repeatable, and not for ever."""

from __future__ import annotations

from stores import Store
from stores.records import Admitted, Finished, InFlight, Lost
from tests.contract.builders import (
    CALLER,
    WORKER,
    admission,
    admit,
    ending,
    finish,
    joining,
    queued,
    running,
    view,
    waiting,
)

OTHER = "worker-2"
LONG = 60_000


async def ready(store: Store) -> set[str]:
    await store.settled(20)
    return set(await store.client.call("SMEMBERS", store.keys.ready))


async def test_r53_another_worker_takes_it_first_and_the_former_can_write_nothing(store: Store) -> None:
    asked = admission()
    ticket = await running(store, message_id="m1", task_id=asked.task_id)
    behind = await queued(store, message_id="m2")
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    assert await ready(store) == {ticket.context.text}
    assert not await store.client.call("SMEMBERS", store.keys.turns(WORKER))
    assert isinstance(await store.turns.finish_turn(ticket, ending()), Lost)
    assert isinstance(await store.turns.append_events(ticket, 2, [("status", "working", "{}")]), Lost)

    taken = await store.turns.take_over(OTHER, ticket.context, owner="")
    assert taken is not None
    word, again = taken
    assert (word, again.task_id, again.mid, again.attempt) == ("started", ticket.task_id, ticket.mid, 1)
    assert (again.input, int(again.fence)) == (ticket.input, int(ticket.fence) + 1)
    ended = await finish(store, again)
    assert ended.next is not None
    assert ended.next.task_id == behind.task_id


async def test_a_repeat_of_the_call_changes_nothing(store: Store) -> None:
    ticket = await running(store)
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    assert await store.client.call("LLEN", store.keys.queue(ticket.context)) == 1
    taken = await store.turns.take_over(OTHER, ticket.context, owner="")
    assert taken is not None
    # Also when the turn has moved on by then: the other's is not touched.
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    assert await store.turns.running_marks([taken[1]]) == [(True, False)]


async def test_whoever_does_not_hold_it_is_told_so(store: Store) -> None:
    ticket = await running(store)
    taken = await store.turns.take_over(OTHER, ticket.context, owner=WORKER)
    assert taken is not None
    assert await store.turns.pass_turn(ticket, LONG) == "lost"
    assert await store.client.call("LLEN", store.keys.queue(ticket.context)) == 0


async def test_it_is_kept_once_it_was_passed_around_for_long_enough(store: Store) -> None:
    ticket = await running(store)
    assert await store.turns.pass_turn(ticket, 0) == "passed"
    taken = await store.turns.take_over(OTHER, ticket.context, owner="")
    assert taken is not None
    assert await store.turns.pass_turn(taken[1], 0) == "kept"
    assert await store.turns.pass_turn(taken[1], LONG) == "passed"
    taken = await store.turns.take_over(WORKER, ticket.context, owner="")
    assert taken is not None
    assert isinstance(await store.turns.finish_turn(taken[1], ending(seq=2)), Finished)


async def test_a_turn_whose_cancel_was_asked_for_is_kept(store: Store) -> None:
    ticket = await running(store)
    await store.turns.cancel_task(ticket.context, ticket.task_id, based="", state="canceled", doc="{}", event="{}")
    assert await store.turns.pass_turn(ticket, LONG) == "kept"


async def test_its_message_stays_in_flight_and_it_can_be_canceled_where_it_waits(store: Store) -> None:
    asked = admission()
    ticket = await running(store, task_id=asked.task_id)
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    again = await admit(store, admission(message_id="m1"))
    assert isinstance(again, InFlight)
    seen = await view(store, ticket)
    reply = await store.turns.cancel_task(
        ticket.context, ticket.task_id, based=seen.last, state="canceled", doc="{}", event="{}"
    )
    assert reply.word == "canceled"
    assert await store.turns.take_over(OTHER, ticket.context, owner="") is None


async def test_the_message_that_joined_a_task_is_in_its_log_once(store: Store) -> None:
    asked = await waiting(store)
    reply = await admit(store, joining(asked))
    assert isinstance(reply, Admitted)
    ticket = reply.ticket
    assert await store.turns.pass_turn(ticket, LONG) == "passed"
    taken = await store.turns.take_over(OTHER, ticket.context, owner="")
    assert taken is not None
    kinds = [entry.kind for entry in (await view(store, taken[1], "0-0")).entries]
    assert kinds.count("message") == 1
    assert (await store.tasks.list_tasks(CALLER)).total == 1
