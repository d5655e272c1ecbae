"""A stream can be joined, left and resumed on any worker with no gap and no repeat."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from stores import Store
from tests.processes.conftest import Callers, queue_is
from tests.support.agents import Ledger
from tests.support.client import WIRES, Frame, Item, Wire
from tests.support.fleet import Fleet
from tests.support.wait import wait_for_state, wait_found, wait_until


def numbers(items: list[Item]) -> list[str]:
    """The pieces of the streamed artifact, in the order they came."""
    return [item.text.rstrip(". ") for item in items if item.kind == "artifact"]


def counted(upto: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, upto)]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_on_one_worker_of_a_turn_on_another_is_joined_and_resumed_on_two_more(
    fleet: Fleet, at: Callers, ledger: Ledger, wire: Wire
) -> None:
    a, b, c, d = fleet.nodes
    context, first, half = (uuid.uuid4().hex for _ in range(3))
    holder = asyncio.create_task(at(b, wire).send(f"hold {first}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))

    # Queued behind the turn of B, it is B that runs it in the end.
    async with at(a, wire).stream(f"stream 40 {half}", context=context, last="0") as on_a:
        snapshot = await on_a.next()
        assert (snapshot.kind, snapshot.state) == ("task", "submitted")
        ledger.open(first)
        await holder
        before = [await on_a.next() for _ in range(21)]
        assert numbers(before) == counted(20)
        cursor = on_a.last_id
        async with at(c, wire).subscribe(snapshot.id) as on_c:
            joined = await on_c.next()
            assert (joined.kind, joined.artifacts) == ("task", ["".join(f"{n} " for n in range(20))])
            ledger.open(half)
            rest_a, rest_c = await on_a.rest(), await on_c.rest()

    async with at(d, wire).subscribe(snapshot.id, last=cursor) as on_d:
        rest_d = await on_d.rest()

    assert [note["pid"] for note in ledger.notes("start", task=snapshot.id)] == [b.pid]
    assert [item.raw for item in rest_a] == [item.raw for item in rest_c] == [item.raw for item in rest_d]
    assert numbers(rest_a) == counted(40, 20)
    assert (rest_a[-1].kind, rest_a[-1].state) == ("status", "completed")
    if wire == "0.3":
        finals = [item.raw["final"] for item in before + rest_a if item.kind == "status"]
        assert finals == [False, True]


async def test_a_stream_cut_anywhere_is_resumed_on_the_next_worker(fleet: Fleet, at: Callers, ledger: Ledger) -> None:
    """The client leaves after every few events, and goes on with the next worker while the agent works."""
    half = uuid.uuid4().hex
    whole: list[Frame] = []
    async with at(fleet.nodes[0]).stream(f"stream 60 {half}") as reader:
        for _ in range(5):
            await reader.next()
        whole += reader.seen
        task_id = whole[0].item.id
    ledger.open(half)
    for turn in range(1, 100):
        async with at(fleet.nodes[turn % 4]).subscribe(task_id, last=whole[-1].id) as reader:
            for _ in range(7):
                await reader.next()
                if reader.seen[-1].item.kind == "status" and reader.seen[-1].item.state == "completed":
                    break
            whole += reader.seen
        if whole[-1].item.kind == "status" and whole[-1].item.state == "completed":
            break

    ids = [frame.id for frame in whole]
    assert len(ids) == len(set(ids))
    assert numbers([frame.item for frame in whole]) == counted(60)


async def test_r31_followers_who_come_at_the_end_see_exactly_one_terminal_event(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    async def follow(task_id: str, number: int) -> list[Item] | int:
        async with at(fleet.nodes[number % 4]).subscribe(task_id) as reader:
            if not reader.is_stream:
                return (await reader.answer()).fault.code
            return await reader.rest()

    for _ in range(4):
        gate = uuid.uuid4().hex
        task = (await at(fleet.nodes[0]).send(f"work {gate}", wait=False)).task
        early = [asyncio.create_task(follow(task.id, number)) for number in range(8)]
        ledger.open(gate)
        late = [asyncio.create_task(follow(task.id, number)) for number in range(24)]
        for seen in await asyncio.gather(*early, *late):
            if isinstance(seen, int):
                assert seen == -32004
                continue
            assert seen[0].kind == "task"
            terminal = [item for item in seen if item.kind != "artifact" and item.state == "completed"]
            assert terminal == [seen[-1]]


async def test_r32_lost_pubsub_connections_leave_no_gap_and_no_repeat(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    gates = [uuid.uuid4().hex for _ in range(4)]
    context = uuid.uuid4().hex
    holder = asyncio.create_task(at(fleet.nodes[0]).send(f"hold {gates[0]}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))
    readers = [asyncio.create_task(read_all(at, fleet, node, f"stream 30 {gates[1]}", context)) for node in (1, 2, 3)]
    await wait_found(lambda: queue_is(store, context, 3))

    ledger.open(gates[0])
    await holder
    for _ in range(10):
        await store.client.call("CLIENT", "KILL", "TYPE", "pubsub")
        ledger.open(gates[1])
    for items in await asyncio.gather(*readers):
        assert numbers(items) == counted(30)
        assert items[-1].state == "completed"


async def read_all(at: Callers, fleet: Fleet, node: int, text: str, context: str) -> list[Item]:
    async with at(fleet.nodes[node]).stream(text, context=context) as reader:
        return await reader.rest()


async def test_events_made_one_by_one_reach_another_worker_without_a_read_for_each(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    async def reads() -> int:
        found = await store.client.call("INFO", "commandstats")
        return int(found["cmdstat_xrange"]["calls"]) if "cmdstat_xrange" in found else 0

    a, b, *_ = fleet.nodes
    gates, count = uuid.uuid4().hex[:8], 20
    task = (await at(a).send(f"steps {count} {gates}", wait=False)).task
    async with at(b).subscribe(task.id) as reader:
        assert (await reader.next()).kind == "task"
        before = await reads()
        items = []
        for number in range(count):
            ledger.open(f"{gates}-{number}")
            items.append(await reader.next())
        items += await reader.rest()
    assert numbers(items) == counted(count)
    assert items[-1].state == "completed"
    # The first one, of which nobody knew that it is followed; the end; and who looks by itself on a slow machine.
    assert await reads() - before < count // 2


async def test_r33_a_cursor_that_the_log_no_longer_reaches_gets_the_task_and_goes_on(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    half = uuid.uuid4().hex
    task = (await at(fleet.nodes[0]).send(f"stream 3000 {half}", wait=False)).task
    async with at(fleet.nodes[0]).subscribe(task.id) as reader:
        pieces: list[str] = []
        while "1499" not in pieces:
            item = await reader.next()
            pieces += (
                (item.artifacts[0].split() if item.artifacts else []) if item.kind == "task" else [item.text.strip()]
            )

    async with at(fleet.nodes[1]).subscribe(task.id, last="1-3") as resumed:
        snapshot = await resumed.next()
        assert snapshot.kind == "task"
        assert snapshot.artifacts == ["".join(f"{n} " for n in range(1500))]
        ledger.open(half)
        rest = await resumed.rest()

    assert numbers(rest) == counted(3000, 1500)
    assert rest[-1].state == "completed"


async def test_r34_a_reader_that_does_not_read_holds_nobody_up_and_misses_nothing(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    """7 MB are more than the sockets between take, and 900 events more than a stream's buffer."""
    async with at(fleet.nodes[0]).stream("burst 900 8000") as slow:
        task = await slow.next()
        await wait_for_state([at(fleet.nodes[1])], task.id, "completed")
        items = await slow.rest()

    assert numbers(items) == counted(900)
    assert items[-1].state == "completed"


async def test_r35_many_followers_in_one_worker_share_one_subscription(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    gate = uuid.uuid4().hex
    task = (await at(fleet.nodes[0]).send(f"work {gate}", wait=False)).task
    channel = store.keys.task_channel + task.id

    async def subscribers(count: int) -> bool:
        return bool(list(await store.client.call("PUBSUB", "NUMSUB", channel))[1] == count)

    async def follow(joined: asyncio.Event) -> list[Item]:
        async with at(fleet.nodes[1]).subscribe(task.id) as reader:
            items = [await reader.next()]
            joined.set()
            return items + await reader.rest()

    events = [asyncio.Event() for _ in range(20)]
    followers = [asyncio.create_task(follow(event)) for event in events]
    await asyncio.gather(*(event.wait() for event in events))
    await wait_found(lambda: subscribers(1))

    async with at(fleet.nodes[1]).subscribe(task.id) as leaving:
        await leaving.next()
    assert await subscribers(1)

    ledger.open(gate)
    for items in await asyncio.gather(*followers):
        assert items[-1].state == "completed"
    await wait_found(lambda: subscribers(0))


async def test_r17_a_client_that_goes_away_changes_nothing(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    message = str(uuid.uuid4())
    running = asyncio.create_task(at(fleet.nodes[0]).send(f"hold {gate}", context=context, message_id=message))
    await wait_until(lambda: ledger.notes("start", context=context))
    queued = asyncio.create_task(at(fleet.nodes[1]).send("echo queued", context=context))
    await wait_found(lambda: queue_is(store, context, 1))
    async with at(fleet.nodes[2]).stream("stream 6", context=context) as reader:
        streamed = await reader.next()

    for request in (running, queued):
        request.cancel()
    await asyncio.wait({running, queued})
    ledger.open(gate)

    await wait_for_state(at.all(fleet), streamed.id, "completed")
    assert [note["what"] for note in ledger.notes(context=context)] == ["start", "end"] * 3
    outcome = (await at(fleet.nodes[3]).send(f"hold {gate}", context=context, message_id=message)).task
    assert (outcome.state, len(ledger.notes("start", message=message))) == ("completed", 1)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_send_that_does_not_wait_returns_at_once_and_the_work_goes_on(
    fleet: Fleet, at: Callers, ledger: Ledger, wire: Wire
) -> None:
    gate = uuid.uuid4().hex
    task = (await at(fleet.nodes[0], wire).send(f"hold {gate}", wait=False)).task
    assert task.state == "working"
    ledger.open(gate)
    done = await wait_for_state(at.all(fleet, wire), task.id, "completed")
    assert done.text == f"echo: hold {gate}"
