"""take_over: one new holder under a new fence, or the next of those who wait."""

from __future__ import annotations

import asyncio

from stores import Store
from stores.records import Lost
from tests.contract.builders import (
    CALLER,
    admission,
    admit,
    ending,
    finish,
    joining,
    live,
    queued,
    roster,
    running,
    ttl,
    turns_of,
    view,
)


async def test_a_dead_workers_turn_goes_to_another_under_a_new_fence(store: Store) -> None:
    ticket = await running(store, worker="gone", input="again")
    taken = await store.turns.take_over("worker-2", ticket.context, owner="gone")
    assert taken is not None
    word, new = taken
    assert word == "taken"
    assert (new.task_id, new.mid, new.input, new.worker) == (ticket.task_id, ticket.mid, "again", "worker-2")
    assert (new.fence, new.attempt, new.started_ms) == ("2", 2, ticket.started_ms)
    if not store.client.apart:  # there it is left to whoever settles the dead worker's list
        assert await roster(store, "gone") == set()
    assert await roster(store, "worker-2") == {f"{ticket.context.text}:{ticket.task_id}"}
    assert (await view(store, ticket)).phase == "open"


async def test_r14_of_two_recoverers_one_wins(fleet: list[Store]) -> None:
    for number in range(10):
        ticket = await running(fleet[0], worker="gone", context_id=f"ctx-{number}")
        replies = await asyncio.gather(
            *(
                store.turns.take_over(f"worker-{index}", ticket.context, owner="gone")
                for index, store in enumerate(fleet)
            )
        )
        winners = [reply for reply in replies if reply is not None]
        assert len(winners) == 1
        assert winners[0][1].fence == "2"


async def test_a_repeated_take_over_brings_the_same_ticket(store: Store) -> None:
    ticket = await running(store, worker="gone")
    first = await store.turns.take_over("worker-2", ticket.context, owner="gone")
    second = await store.turns.take_over("worker-2", ticket.context, owner="gone")
    assert first is not None
    assert first == second


async def test_a_repeated_start_is_a_start_again_and_not_a_recovery(store: Store) -> None:
    """A turn that never ran must not be failed as if its worker had died."""
    ticket = await running(store)
    await queued(store, message_id="m2")
    await finish(store, ticket, take_next=False)
    first = await store.turns.take_over("worker-2", ticket.context, owner="")
    second = await store.turns.take_over("worker-2", ticket.context, owner="")
    assert first is not None
    assert first[0] == "started"
    assert first[1].attempt == 1
    assert first == second


async def test_r14_a_hint_draws_many_and_one_starts_the_turn(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    asked = await queued(fleet[0], message_id="m2")
    await finish(fleet[0], ticket, take_next=False)
    replies = await asyncio.gather(
        *(store.turns.take_over(f"w-{index}", ticket.context, owner="") for index, store in enumerate(fleet))
    )
    winners = [reply for reply in replies if reply is not None]
    assert [(word, new.task_id) for word, new in winners] == [("started", asked.task_id)]


async def test_a_stale_take_over_takes_nothing(store: Store) -> None:
    ticket = await running(store)
    assert await store.turns.take_over("worker-2", ticket.context, owner="worker-3") is None
    assert await store.turns.take_over("worker-2", ticket.context, owner="worker-1", fence="9") is None
    assert await store.turns.take_over("worker-2", ticket.context, owner="") is None
    assert await store.turns.running_marks([ticket]) == [(True, False)]
    await finish(store, ticket)
    assert await store.turns.take_over("worker-2", ticket.context, owner="worker-1") is None
    assert await store.turns.take_over("worker-2", admission("never").context, owner="worker-1") is None


async def test_r24_a_take_over_of_one_fence_spares_the_next_turn_of_the_same_worker(store: Store) -> None:
    ticket = await running(store)
    await queued(store, message_id="m2")
    done = await finish(store, ticket)
    assert done.next is not None
    assert await store.turns.take_over("worker-2", ticket.context, owner="worker-1", fence=ticket.fence) is None
    assert await store.turns.running_marks([done.next]) == [(True, False)]


async def test_r09_a_worker_that_takes_a_turn_from_itself_keeps_it_on_its_roster(store: Store) -> None:
    """Off the roster, the turn would have nobody to recover it when this worker dies."""
    ticket = await running(store)
    for _ in range(2):
        taken = await store.turns.take_over("worker-1", ticket.context, owner="worker-1", fence=ticket.fence)
        assert taken is not None
        assert taken[1].fence == "2"
        assert await roster(store) == {f"{ticket.context.text}:{ticket.task_id}"}
    assert await store.turns.finish_turn(ticket, ending()) == Lost("working")


async def test_a_recovered_turn_recovers_again(store: Store) -> None:
    ticket = await running(store, worker="w0")
    for number in range(1, 4):
        taken = await store.turns.take_over(f"w{number}", ticket.context, owner=f"w{number - 1}")
        assert taken is not None
        assert taken[1].attempt == number + 1
    assert await live(store) == {ticket.context.text}


async def test_r11_a_worker_back_from_the_dead_can_write_nothing(store: Store) -> None:
    ticket = await running(store)
    taken = await store.turns.take_over("worker-2", ticket.context, owner="worker-1")
    assert taken is not None
    assert await store.turns.append_events(ticket, 2, [("status", "", "{}")]) == Lost()
    assert await store.turns.finish_turn(ticket, ending()) == Lost("working")
    assert await store.turns.running_marks([ticket, taken[1]]) == [(False, False), (True, False)]


async def test_whoever_has_a_turn_is_looked_for_also_when_it_was_reaped_before(store: Store) -> None:
    """A paused worker is reaped with nothing to do, wakes, and accepts a message before its next beat."""
    await store.fleet.beat_worker("paused", "{}")
    assert await store.fleet.reap_worker("paused", "1") == ()
    ticket = await running(store, worker="paused")
    beat = await store.fleet.beat_worker("worker-2", "{}")
    assert getattr(beat, "counters", {}).get("paused") == ""
    assert turns_of(await store.fleet.reap_worker("paused", "")) == (f"{ticket.context.text}:{ticket.task_id}",)


async def test_a_recovery_renews_what_the_turn_needs(store: Store) -> None:
    ticket = await running(store)
    keys, context = store.keys, ticket.context
    needed = (keys.context(context), keys.task(context.tag, CALLER, ticket.task_id))
    for key in needed:
        await store.client.call("PEXPIRE", key, 60_000)
    await store.turns.take_over("worker-2", context, owner="worker-1")
    for key in needed:
        assert await ttl(store, key) > store.limits.context_ms - 60_000
    assert (await store.tasks.list_tasks(CALLER)).total == 1


async def test_a_queue_of_ended_tasks_gives_its_context_back(store: Store) -> None:
    """Nothing can be started, and nothing must stay counted: the cap would leak a place for 30 days."""
    ticket = await running(store)
    await admit(store, joining(ticket.view, "m2"))
    await finish(store, ticket, take_next=False)
    assert await live(store) == {ticket.context.text}
    assert await store.turns.take_over("worker-2", ticket.context, owner="") is None
    assert await live(store) == set()
