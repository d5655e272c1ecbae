"""signals: one connection that wakes; what it misses is looked up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from stores import Store
from stores.decode import decode_told
from stores.keys import ContextRef
from stores.records import Appended
from tests.contract.builders import CALLER, eventually, finish, queued, running, view


@pytest.fixture
async def hearing(store: Store) -> AsyncIterator[Store]:
    store.signals.start()
    yield store
    await store.signals.stop()


def into(queue: asyncio.Queue[str]) -> Callable[[str], None]:
    return queue.put_nowait


async def heard(queue: asyncio.Queue[str]) -> str:
    async with asyncio.timeout(5):
        return await queue.get()


async def subscribers(store: Store, channel: str) -> int:
    return sum([int((await node.call("PUBSUB", "NUMSUB", channel))[1]) for node in await store.client.nodes()])


async def cut(store: Store) -> None:
    for node in await store.client.nodes():
        await node.call("CLIENT", "KILL", "TYPE", "pubsub")


async def test_r30_what_happens_after_listen_returned_is_heard(hearing: Store) -> None:
    ticket = await running(hearing)
    words: asyncio.Queue[str] = asyncio.Queue()
    assert await hearing.signals.listen(hearing.keys.task_channel + ticket.task_id, into(words))
    await hearing.turns.append_events(ticket, 2, [("artifact", "", "a")])
    assert await heard(words) == "open"
    await finish(hearing, ticket, seq=3)
    assert await heard(words) == "closed"


async def test_a_repeated_append_wakes_nobody(hearing: Store) -> None:
    ticket = await running(hearing)
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(hearing.keys.task_channel + ticket.task_id, into(words))
    for _ in range(3):
        await hearing.turns.append_events(ticket, 2, [("artifact", "", "a")])
    await finish(hearing, ticket, seq=3)
    assert [await heard(words), await heard(words)] == ["open", "closed"]


async def test_who_hears_a_wake_up_is_known_to_the_turn(hearing: Store) -> None:
    ticket = await running(hearing)
    reply = await hearing.turns.append_events(ticket, 2, [("artifact", "", "a")])
    assert isinstance(reply, Appended)
    assert not reply.heard
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(hearing.keys.task_channel + ticket.task_id, into(words))
    reply = await hearing.turns.append_events(ticket, 3, [("artifact", "", "b")])
    assert isinstance(reply, Appended)
    # A node of a Cluster knows its own listeners only.
    assert reply.heard or hearing.client.apart


async def test_a_wake_up_brings_the_very_entries_of_the_log(hearing: Store) -> None:
    ticket = await running(hearing)
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(hearing.keys.task_channel + ticket.task_id, into(words))
    texts = ['{"a": "/ \\" \\n ü 😀"}', "", "\x01\r"]
    await hearing.turns.append_events(ticket, 2, [("artifact", "", texts[0])], carry=True)
    await hearing.turns.append_events(
        ticket, 3, [("status", "working", texts[1]), ("artifact", "", texts[2])], carry=True
    )
    told = decode_told(await heard(words)) + decode_told(await heard(words))
    assert told == (await view(hearing, ticket, "1-1")).entries
    assert [entry.doc for entry in told] == texts


async def test_a_wake_up_brings_only_what_is_new_and_small(hearing: Store) -> None:
    ticket = await running(hearing)
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(hearing.keys.task_channel + ticket.task_id, into(words))
    first, second = ("artifact", "", "a"), ("artifact", "", "b")
    for _ in range(2):
        await hearing.turns.append_events(ticket, 2, [first], carry=True)
    await hearing.turns.append_events(ticket, 2, [first, second], carry=True)
    await hearing.turns.append_events(ticket, 4, [("artifact", "", "x" * 70_000)], carry=True)
    await hearing.turns.append_events(ticket, 5, [("artifact", "", "two\nlines")], carry=True)
    await hearing.turns.append_events(ticket, 6, [second] * 17, carry=True)
    told = [await heard(words) for _ in range(5)]
    assert [entry.id for entry in decode_told(told[0])] == ["1-2"]
    assert told[1:] == ["open"] * 4
    assert decode_told("open") == ()


async def test_a_queued_turn_a_direct_reply_and_a_superseded_task_wake_their_followers(hearing: Store) -> None:
    ticket = await running(hearing)
    second = await queued(hearing, message_id="m2")
    third = await queued(hearing, message_id="m3", super_state="completed", super_doc="{}")
    words: asyncio.Queue[str] = asyncio.Queue()
    for task in (ticket, second, third):
        await hearing.signals.listen(hearing.keys.task_channel + task.task_id, into(words))
    done = await finish(hearing, ticket, reply="{}")
    assert {await heard(words), await heard(words)} == {"gone", "open"}
    assert done.next is not None
    done = await finish(hearing, done.next, "input_required", "waiting")
    assert {await heard(words), await heard(words), await heard(words)} == {"waiting", "closed", "open"}


async def test_r20_a_cancel_wakes_the_worker_that_runs_the_turn(hearing: Store) -> None:
    ticket = await running(hearing)
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(hearing.keys.worker_channel + "worker-1", into(words))
    context = ContextRef.of(CALLER, "ctx")
    await hearing.turns.cancel_task(context, ticket.task_id, based="", state="", doc="", event="")
    assert await heard(words) == f"cancel:{ticket.task_id}:{ticket.fence}"


async def test_r35_many_listeners_are_one_subscription_that_ends_with_the_last(hearing: Store) -> None:
    channel = f"{hearing.keys.namespace}:t:x"
    queues: list[asyncio.Queue[str]] = [asyncio.Queue() for _ in range(5)]
    listeners = [into(queue) for queue in queues]
    for listener in listeners:
        assert await hearing.signals.listen(channel, listener)
    assert await subscribers(hearing, channel) == 1
    await hearing.client.call("PUBLISH", channel, "word")
    assert [await heard(queue) for queue in queues] == ["word"] * 5
    for listener in listeners:
        hearing.signals.forget(channel, listener)
        hearing.signals.forget(channel, listener)

    async def left() -> bool:
        return await subscribers(hearing, channel) == 0

    await eventually(left)


async def test_a_listener_that_comes_while_the_channel_is_being_left_is_heard(hearing: Store) -> None:
    channel = f"{hearing.keys.namespace}:t:x"
    anchor: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(f"{channel}-anchor", into(anchor))
    for steps in range(12):
        old, new = into(asyncio.Queue()), asyncio.Queue[str]()
        await hearing.signals.listen(channel, old)
        hearing.signals.forget(channel, old)
        for _ in range(steps):
            await asyncio.sleep(0)
        listener = into(new)
        assert await hearing.signals.listen(channel, listener)
        async with asyncio.timeout(5):
            while new.empty():
                await hearing.client.call("PUBLISH", channel, "word")
        hearing.signals.forget(channel, listener)


async def test_r32_after_a_lost_connection_listeners_look_once_they_can_hear_again(
    hearing: Store, caplog: pytest.LogCaptureFixture
) -> None:
    channel = f"{hearing.keys.namespace}:t:x"
    words: asyncio.Queue[str] = asyncio.Queue()
    assert await hearing.signals.listen(channel, into(words))
    with caplog.at_level(logging.WARNING):
        await cut(hearing)
        assert await heard(words) == ""
    # From the look on, nothing is missed: the channel was subscribed before it.
    assert await subscribers(hearing, channel) == 1
    await hearing.client.call("PUBLISH", channel, "word")
    assert await heard(words) == "word"
    assert hearing.signals.reconnects == 1


async def test_r32_repeated_cuts_are_survived_without_growing_delays(
    hearing: Store, caplog: pytest.LogCaptureFixture
) -> None:
    channel = f"{hearing.keys.namespace}:t:x"
    words: asyncio.Queue[str] = asyncio.Queue()
    await hearing.signals.listen(channel, into(words))
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            await cut(hearing)
            assert await heard(words) == ""
    assert all("retry_in=0.05" in record.message for record in caplog.records)


async def test_a_listener_without_a_connection_is_told_so(store: Store) -> None:
    words: asyncio.Queue[str] = asyncio.Queue()
    assert not await store.signals.listen("nobody-serves", into(words), timeout=0.01)
    store.signals.forget("nobody-serves", into(words))
