"""claim_push, settle_push, bury_push, release_push, retry_push: who serves callbacks, how far they are, what was
given up on."""

from __future__ import annotations

import asyncio

import pytest

from stores import Store
from stores.keys import DeliveryRef
from stores.records import Beat, Limits, PushEntry, StoredConfig, Ticket
from tests.contract.builders import CALLER, WORKER, admit, finish, joining, running, view, waiting
from tests.contract.push import config_of, deliveries, put, ref_of, undelivered

HOOK = PushEntry("a1", "the document")


@pytest.fixture
def limits() -> Limits:
    return Limits(push_configs=16)


@pytest.fixture
async def ticket(store: Store) -> Ticket:
    return await running(store, push=HOOK)


async def settle(store: Store, ticket: Ticket, to: str, config: StoredConfig, worker: str = WORKER) -> str:
    return await store.push.settle_push(worker, ref_of(ticket), ticket.delivery, config, to)


async def bury(store: Store, ticket: Ticket, to: str, config: StoredConfig, *, always: bool = False) -> str:
    return await store.push.bury_push(
        WORKER, ref_of(ticket), ticket.delivery, config, to, letter=f"letter {to}", always=always
    )


# --- claim ----------------------------------------------------------------------------------------------------------


async def test_what_somebody_serves_is_not_claimed(store: Store, ticket: Ticket) -> None:
    for owner in ("", "w9"):
        assert await store.push.claim_push("w2", ref_of(ticket), owner=owner) is None
    assert await deliveries(store, "w2") == set()


async def test_a_dead_workers_delivery_goes_to_another_under_a_new_fence(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    for _ in range(2):
        assert await store.push.claim_push("w2", ref_of(ticket), owner=WORKER) == "2"
    assert await deliveries(store, WORKER) == set()
    assert await deliveries(store, "w2") == {ref_of(ticket).text}
    assert await settle(store, ticket, "1-1", config) == "lost"
    assert (await config_of(store, ticket)).cursor == "0-0"


async def test_r43_recoverers_at_once_one_has_it(fleet: list[Store]) -> None:
    ticket = await running(fleet[0], push=HOOK)
    fences = await asyncio.gather(
        *(store.push.claim_push(f"w{number}", ref_of(ticket), owner=WORKER) for number, store in enumerate(fleet))
    )
    assert sorted(fence or "" for fence in fences) == ["", "", "", "2"]


async def test_a_worker_gets_back_what_is_stored_as_its_own(store: Store, ticket: Ticket) -> None:
    for _ in range(2):
        assert await store.push.claim_push(WORKER, ref_of(ticket), owner=WORKER) == ticket.delivery


async def test_a_hint_is_answered_whatever_is_found(store: Store, ticket: Ticket) -> None:
    gone = DeliveryRef(CALLER, "00000000-0000-8000-8000-000000000000")
    for ref in (ref_of(ticket), gone):
        await store.client.call("SADD", store.keys.undelivered, ref.text)
        assert await store.push.claim_push("w2", ref, owner="") is None
    assert await undelivered(store) == set()


async def test_beats_show_what_is_ours_and_what_is_nobodys(store: Store, ticket: Ticket) -> None:
    beat = await store.fleet.beat_worker(WORKER, "{}")
    assert isinstance(beat, Beat)
    assert (beat.deliveries, beat.undelivered) == ((ref_of(ticket).text,), ())
    await store.push.release_push(WORKER, ref_of(ticket), ticket.delivery, hand_on=True)
    beat = await store.fleet.beat_worker("w2", "{}")
    assert isinstance(beat, Beat)
    assert (beat.deliveries, beat.undelivered) == ((), (ref_of(ticket).text,))


async def test_a_dead_worker_with_deliveries_stays_known_until_they_are_settled(store: Store, ticket: Ticket) -> None:
    await store.fleet.beat_worker(WORKER, "{}")
    await finish(store, ticket)
    await store.settled(20)
    assert await store.fleet.reap_worker(WORKER, "1") == ()
    assert WORKER in await store.fleet.workers()
    assert await store.fleet.deliveries(WORKER) == (ref_of(ticket).text,)
    await store.push.claim_push("w2", ref_of(ticket), owner=WORKER)
    await store.fleet.settle_delivery(WORKER, ref_of(ticket).text)
    assert WORKER not in await store.fleet.workers()


async def test_a_worker_that_leaves_deliveries_behind_stays_to_be_found(store: Store, ticket: Ticket) -> None:
    await finish(store, ticket)
    await store.fleet.leave_fleet(WORKER)
    assert WORKER in await store.fleet.workers()


# --- settle -----------------------------------------------------------------------------------------------------------


async def test_a_cursor_moves_forward_alone(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    for to, at in (("1-1", "1-1"), ("1-9", "1-9"), ("1-10", "1-10"), ("1-9", "1-10"), ("2-0", "2-0"), ("", "2-0")):
        assert await settle(store, ticket, to, config) == "settled"
        assert (await config_of(store, ticket)).cursor == at


async def test_r41_a_deleted_or_replaced_config_settles_nothing(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    await put(store, ticket, "a1", "another")
    assert await settle(store, ticket, "1-1", config) == "gone"
    await store.push.drop_push_config(ref_of(ticket), "a1")
    assert await settle(store, ticket, "1-1", config) == "gone"
    assert await bury(store, ticket, "1-1", config) == "gone"


async def test_nobody_else_settles(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    assert await settle(store, ticket, "1-1", config, worker="w2") == "lost"
    ref = ref_of(ticket)
    assert await store.push.settle_push(WORKER, ref, "99", config, "1-1") == "lost"


# --- release ----------------------------------------------------------------------------------------------------------


async def release(store: Store, ticket: Ticket, seen: str, rev: str = "1") -> str:
    return await store.push.release_push(WORKER, ref_of(ticket), ticket.delivery, seen=seen, rev=rev)


async def test_a_delivery_is_kept_while_a_turn_runs(store: Store, ticket: Ticket) -> None:
    assert await release(store, ticket, "1-1") == "busy"


async def test_it_ends_where_the_task_rests_and_everything_was_seen(store: Store, ticket: Ticket) -> None:
    await finish(store, ticket, "input_required", "waiting")
    assert await release(store, ticket, "1-1") == "busy"
    assert await release(store, ticket, "1-2", rev="7") == "busy"
    for _ in range(2):
        assert await release(store, ticket, "1-2") == "released"
    assert await deliveries(store, WORKER) == set()
    assert await undelivered(store) == set()
    # Events that a config did not want count as told.
    assert (await config_of(store, ticket)).cursor == "1-2"


async def test_the_next_turn_takes_it_up_again(store: Store, ticket: Ticket) -> None:
    await finish(store, ticket, "input_required", "waiting")
    await release(store, ticket, "1-2")
    reply = await admit(store, joining(await view(store, ticket)), "w2")
    assert reply.ticket.delivery == "2"  # type: ignore[union-attr]
    assert await release(store, ticket, "1-2") == "lost"
    assert await deliveries(store, "w2") == {ref_of(ticket).text}


async def test_handing_on_leaves_a_hint_and_the_cursors(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    await settle(store, ticket, "1-1", config)
    for _ in range(2):
        released = await store.push.release_push(WORKER, ref_of(ticket), ticket.delivery, hand_on=True)
        assert released == "released"
    assert await undelivered(store) == {ref_of(ticket).text}
    assert await store.push.claim_push("w2", ref_of(ticket), owner="") == "2"
    assert (await config_of(store, ticket)).cursor == "1-1"


async def test_without_configs_nothing_is_left(store: Store, ticket: Ticket) -> None:
    await store.push.drop_push_config(ref_of(ticket), "a1")
    assert await release(store, ticket, "", rev="2") == "released"


async def test_a_lost_delivery_leaves_the_roster(store: Store, ticket: Ticket) -> None:
    await finish(store, ticket, reply="{}")
    assert await release(store, ticket, "1-1") == "lost"
    assert await deliveries(store, WORKER) == set()


# --- dead letters -----------------------------------------------------------------------------------------------------


async def test_a_dead_letter_lets_the_cursor_on_and_is_listed(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    for _ in range(2):
        assert await bury(store, ticket, "1-1", config) == "settled"
    [letter] = await store.push.list_dead_letters()
    assert (letter.caller, letter.task_id, letter.name, letter.event) == (CALLER, ticket.task_id, "a1", "1-1")
    assert letter.doc == "letter 1-1"
    assert letter.at_ms > 0
    assert (await config_of(store, ticket)).cursor == "1-1"
    assert await settle(store, ticket, "1-2", config) == "settled"


async def test_letters_are_listed_newest_first_and_stay_with_their_task(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    for number in range(1, 4):
        await bury(store, ticket, f"1-{number}", config)
    assert {letter.event for letter in await store.push.list_dead_letters()} == {"1-1", "1-2", "1-3"}
    ref = ref_of(ticket)
    await store.client.call("DEL", store.keys.push(ref.tag, ref.caller, ref.task_id))
    assert await store.push.list_dead_letters() == ()
    assert await store.client.call("EXISTS", store.keys.letters) == 0


async def test_a_task_keeps_so_many_letters_and_always_its_end(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    for number in range(1, 111):
        await bury(store, ticket, f"1-{number}", config)
    await bury(store, ticket, "1-111", config, always=True)
    found = await store.push.list_dead_letters(most=1000)
    assert len(found) == 101
    assert "1-111" in {letter.event for letter in found}


async def test_a_retry_goes_back_to_before_the_letter(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    await settle(store, ticket, "1-1", config)
    await bury(store, ticket, "1-2", config)
    await bury(store, ticket, "1-3", config)
    await settle(store, ticket, "1-4", config)
    await store.push.release_push(WORKER, ref_of(ticket), ticket.delivery, hand_on=True)
    await store.client.call("DEL", store.keys.undelivered)

    letter = next(letter for letter in await store.push.list_dead_letters() if letter.event == "1-2")
    assert await store.push.retry_dead_letter(letter) is True
    after = await config_of(store, ticket)
    assert (after.cursor, after.version != config.version) == ("1-1", True)
    assert await store.push.list_dead_letters() == ()
    assert await undelivered(store) == {ref_of(ticket).text}
    assert await store.push.retry_dead_letter(letter) is False


async def test_a_retry_makes_the_one_who_serves_begin_again(store: Store, ticket: Ticket) -> None:
    config = await config_of(store, ticket)
    await bury(store, ticket, "1-1", config)
    [letter] = await store.push.list_dead_letters()
    await store.push.retry_dead_letter(letter)
    assert await settle(store, ticket, "1-2", config) == "gone"
    assert await undelivered(store) == set()


async def test_of_a_deleted_config_nothing_is_retried(store: Store, ticket: Ticket) -> None:
    await bury(store, ticket, "1-1", await config_of(store, ticket))
    await store.push.drop_push_config(ref_of(ticket), "a1")
    [letter] = await store.push.list_dead_letters()
    assert await store.push.retry_dead_letter(letter) is False


async def test_an_idle_task_is_served_again_by_its_next_turn_only(store: Store) -> None:
    seen = await waiting(store, push=HOOK)
    ref = DeliveryRef(CALLER, seen.task_id)
    book = await store.push.read_push_configs(ref)
    assert book is not None
    assert await store.push.release_push(WORKER, ref, book.fence, seen=seen.last, rev=book.rev) == "released"
    assert await store.push.claim_push("w2", ref, owner=WORKER) is None
