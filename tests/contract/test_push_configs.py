"""put_push_config, read_push_configs, drop_push_config, and configs that come with a message: kept with their task."""

from __future__ import annotations

import asyncio

import pytest

from stores import Store
from stores.keys import DeliveryRef
from stores.records import Admission, Limits, PushBook, PushEntry, Queued, Refused, Replayed, StoredConfig, Ticket
from tests.contract.builders import (
    CALLER,
    WORKER,
    admission,
    admit,
    finish,
    joining,
    queued,
    running,
    ttl,
    waiting,
)
from tests.contract.push import deliveries, put, ref_of, undelivered

HOOK = PushEntry("a1", "the document")


@pytest.fixture
def limits() -> Limits:
    return Limits(push_configs=16)


async def book(store: Store, of: Ticket | Admission) -> PushBook:
    found = await store.push.read_push_configs(ref_of(of))
    assert found is not None
    return found


async def test_r40_a_config_begins_where_the_task_is(store: Store) -> None:
    ticket = await running(store)
    await store.turns.append_events(ticket, 2, [("artifact", "", "{}"), ("artifact", "", "{}")])
    await put(store, ticket, "a1", "doc")
    await store.turns.append_events(ticket, 4, [("artifact", "", "{}")])
    [config] = (await book(store, ticket)).configs
    assert (config.name, config.doc, config.cursor) == ("a1", "doc", "1-3")


async def test_a_repeated_put_does_not_forget_the_events_in_between(store: Store) -> None:
    ticket = await running(store)
    first = await put(store, ticket, "a1", "doc")
    await store.turns.append_events(ticket, 2, [("artifact", "", "{}")])
    assert await put(store, ticket, "a1", "doc") == first
    [config] = (await book(store, ticket)).configs
    assert config.cursor == "1-1"


async def test_an_upsert_replaces_in_place_and_begins_anew(store: Store) -> None:
    ticket = await running(store)
    for name in ("a1", "b2"):
        await put(store, ticket, name, "old")
    before = (await book(store, ticket)).configs[0]
    await store.turns.append_events(ticket, 2, [("artifact", "", "{}")])
    await put(store, ticket, "a1", "new")
    after, other = (await book(store, ticket)).configs
    assert (after.name, after.doc, after.cursor, other.name) == ("a1", "new", "1-2", "b2")
    assert after.version != before.version


async def test_a_config_that_comes_again_with_a_message_goes_on_from_where_it_is(store: Store) -> None:
    rested = await waiting(store, push=HOOK)
    ref = DeliveryRef(CALLER, rested.task_id)
    [began] = await configs_of(store, ref)
    await admit(store, joining(rested, "m2", push=PushEntry("a1", "sealed anew")))
    [config] = await configs_of(store, ref)
    assert (config.doc, config.cursor) == ("sealed anew", began.cursor)
    assert config.version != began.version


async def test_a_config_that_is_new_with_a_later_message_is_told_what_comes(store: Store) -> None:
    rested = await waiting(store, push=HOOK)
    await admit(store, joining(rested, "m2", push=PushEntry("b2", "new")))
    _, config = await configs_of(store, DeliveryRef(CALLER, rested.task_id))
    assert config.cursor == rested.last


async def configs_of(store: Store, ref: DeliveryRef) -> tuple[StoredConfig, ...]:
    found = await store.push.read_push_configs(ref)
    assert found is not None
    return found.configs


async def test_the_worker_that_registers_serves_unless_another_does(store: Store) -> None:
    ticket = await running(store)
    word, fence = await store.push.put_push_config("w1", ref_of(ticket), "a1", "doc")
    assert (word, fence) == ("put", "1")
    assert await store.push.put_push_config("w2", ref_of(ticket), "b2", "doc") == ("put", "")
    assert await deliveries(store, "w1") == {ref_of(ticket).text}
    assert await deliveries(store, "w2") == set()


async def test_of_a_task_that_rests_nobody_serves_until_it_goes_on(store: Store) -> None:
    view = await waiting(store)
    ref = DeliveryRef(CALLER, view.task_id)
    assert await store.push.put_push_config("w1", ref, "a1", "doc") == ("put", "")
    assert await deliveries(store, "w1") == set()
    ticket = (await running_again(store, joining(view), "w2")).delivery
    assert ticket == "1"
    assert await deliveries(store, "w2") == {ref.text}


async def running_again(store: Store, asked: Admission, worker: str) -> Ticket:
    reply = await admit(store, asked, worker)
    return reply.ticket  # type: ignore[union-attr]


async def test_the_owner_is_woken_by_what_another_worker_changes(store: Store) -> None:
    store.signals.start()
    heard: asyncio.Queue[str] = asyncio.Queue()
    ticket = await running(store)
    await store.push.put_push_config("w1", ref_of(ticket), "a1", "doc")
    await store.signals.listen(store.keys.worker_channel + "w1", heard.put_nowait)
    await store.push.put_push_config("w2", ref_of(ticket), "b2", "doc")
    await store.push.drop_push_config(ref_of(ticket), "a1")
    async with asyncio.timeout(5):
        assert [await heard.get() for _ in range(2)] == [f"push:{ref_of(ticket).text}"] * 2


async def test_sixteen_configs_are_the_most(store: Store) -> None:
    ticket = await running(store)
    for number in range(16):
        assert (await put(store, ticket, f"c{number}", "doc"))[0] == "put"
    assert (await put(store, ticket, "one more", "doc"))[0] == "too_many"
    assert (await put(store, ticket, "c3", "another document"))[0] == "put"
    await store.push.drop_push_config(ref_of(ticket), "c0")
    assert (await put(store, ticket, "one more", "doc"))[0] == "put"
    assert len((await book(store, ticket)).configs) == 16


async def test_many_at_once_never_exceed_the_limit(fleet: list[Store]) -> None:
    ticket = await running(fleet[0])
    words = await asyncio.gather(
        *(fleet[number % 4].push.put_push_config("w", ref_of(ticket), f"c{number}", "d") for number in range(40))
    )
    assert sorted(word for word, _ in words) == ["put"] * 16 + ["too_many"] * 24


@pytest.mark.parametrize("task_id", ["00000000-0000-8000-8000-000000000000", "no-id"])
async def test_an_unknown_task_has_no_configs(store: Store, task_id: str) -> None:
    ref = DeliveryRef(CALLER, task_id)
    assert await store.push.put_push_config(WORKER, ref, "a1", "doc") == ("unknown", "")
    assert await store.push.read_push_configs(ref) is None
    assert await store.push.drop_push_config(ref, "a1") is False


async def test_another_callers_task_is_not_there(store: Store) -> None:
    ticket = await running(store)
    await put(store, ticket, "a1", "doc")
    stranger = DeliveryRef("5" * 32, ticket.task_id)
    assert await store.push.put_push_config(WORKER, stranger, "a1", "doc") == ("unknown", "")
    assert await store.push.read_push_configs(stranger) is None
    assert await store.push.drop_push_config(stranger, "a1") is False


async def test_dropping_is_idempotent(store: Store) -> None:
    ticket = await running(store)
    await put(store, ticket, "a1", "doc")
    for _ in range(2):
        assert await store.push.drop_push_config(ref_of(ticket), "a1") is True
    assert (await book(store, ticket)).configs == ()


async def test_configs_live_as_long_as_their_task(store: Store) -> None:
    ticket = await running(store)
    await put(store, ticket, "a1", "doc")
    ref = ref_of(ticket)
    key = store.keys.push(ref.tag, ref.caller, ref.task_id)
    assert await ttl(store, key) > store.limits.task_ms
    await finish(store, ticket)
    assert 0 < await ttl(store, key) <= store.limits.task_ms


# --- with a message -----------------------------------------------------------------------------------------------


async def test_a_config_comes_with_its_message_and_its_worker_serves(store: Store) -> None:
    ticket = await running(store, push=HOOK)
    found = await book(store, ticket)
    assert [(config.name, config.doc, config.cursor) for config in found.configs] == [("a1", "the document", "0-0")]
    assert (found.owner, found.fence) == (WORKER, ticket.delivery)
    assert await deliveries(store, WORKER) == {ref_of(ticket).text}


async def test_r06_a_repeated_admission_brings_the_same_delivery(store: Store) -> None:
    asked = admission(push=HOOK)
    first = await running_again(store, asked, WORKER)
    assert (await running_again(store, asked, WORKER)).delivery == first.delivery == "1"


async def test_a_config_that_wants_everything_begins_before_the_task_was_shown(store: Store) -> None:
    ticket = await running(store, push=PushEntry("a1", "doc", from_start=True))
    assert (await book(store, ticket)).configs[0].cursor == ""


async def test_a_queued_message_is_served_by_the_worker_that_took_it(store: Store) -> None:
    first = await running(store, worker="w1")
    asked = admission(message_id="m2", push=HOOK)
    reply = await admit(store, asked, "w2")
    assert isinstance(reply, Queued)
    assert reply.delivery == "1"
    assert await deliveries(store, "w2") == {ref_of(asked).text}
    following = (await finish(store, first)).next
    assert following is not None
    assert (following.worker, following.delivery) == ("w1", "")


async def test_a_config_for_a_named_task_begins_with_what_comes(store: Store) -> None:
    view = await waiting(store)
    ticket = await running_again(store, joining(view, push=HOOK), WORKER)
    assert (await book(store, ticket)).configs[0].cursor == view.last
    assert ticket.delivery == "1"


async def test_a_named_task_with_all_its_configs_refuses_one_more(store: Store) -> None:
    view = await waiting(store)
    for number in range(16):
        await store.push.put_push_config(WORKER, DeliveryRef(CALLER, view.task_id), f"c{number}", "doc")
    assert await admit(store, joining(view, push=HOOK)) == Refused("too_many")


async def test_refusals_and_replays_store_nothing(store: Store) -> None:
    ticket = await running(store)
    await admit(store, admission(push=HOOK))  # in flight
    await finish(store, ticket)
    reply = await admit(store, admission(push=HOOK))
    assert isinstance(reply, Replayed)
    assert (await book(store, ticket)).configs == ()
    assert await deliveries(store, WORKER) == set()


async def test_a_direct_reply_leaves_no_configs(store: Store) -> None:
    ticket = await running(store, push=HOOK)
    await finish(store, ticket, reply="{}")
    ref = ref_of(ticket)
    assert await store.client.call("EXISTS", store.keys.push(ref.tag, ref.caller, ref.task_id)) == 0


async def test_a_worker_that_serves_no_callbacks_takes_no_delivery(store: Store) -> None:
    view = await waiting(store)
    await store.push.put_push_config("w1", DeliveryRef(CALLER, view.task_id), "a1", "doc")
    plain = Store(store.client, store.keys.namespace, Limits(), working="working", submitted="submitted")
    reply = await plain.turns.admit_turn("w2", joining(view))
    assert reply.ticket.delivery == ""  # type: ignore[union-attr]
    assert await deliveries(store, "w2") == set()


# --- news that nobody serves ----------------------------------------------------------------------------------------


async def test_a_superseded_task_asks_for_somebody(store: Store) -> None:
    view = await waiting(store)
    ref = DeliveryRef(CALLER, view.task_id)
    await store.push.put_push_config(WORKER, ref, "a1", "doc")
    await running(store, message_id="m2", super_state="completed", super_doc="{}")
    assert await undelivered(store) == {ref.text}


async def test_a_task_canceled_in_the_queue_asks_for_somebody_where_nobody_serves(store: Store) -> None:
    await running(store)
    asked = await queued(store, message_id="m2", push=HOOK)
    fence = (await book(store, asked)).fence
    assert await store.push.release_push(WORKER, ref_of(asked), fence, hand_on=True) == "released"
    await store.client.call("DEL", store.keys.undelivered)
    found = await store.tasks.read_task(CALLER, asked.task_id)
    assert found is not None
    reply = await store.turns.cancel_task(
        asked.context, asked.task_id, based=found.last, state="canceled", doc="{}", event="{}"
    )
    assert reply.word == "canceled"
    assert await undelivered(store) == {ref_of(asked).text}


async def test_a_turn_that_ends_asks_for_somebody_where_nobody_serves(store: Store) -> None:
    ticket = await running(store, push=HOOK)
    await store.push.release_push(WORKER, ref_of(ticket), ticket.delivery, hand_on=True)
    await store.client.call("DEL", store.keys.undelivered)
    await finish(store, ticket)
    assert await undelivered(store) == {ref_of(ticket).text}
