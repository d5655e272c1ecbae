"""What each kind of turn costs in Redis: calls, round trips, commands and bytes, never time.

The recorded numbers are in recorded.json. More fails; less asks for `make costs`.
"""

from __future__ import annotations

import uuid

import pytest

from tests.costs.conftest import Scale
from tests.costs.recorded import judge
from tests.push.hooks import Hook, Registrar
from tests.support.wait import wait_until

pytestmark = pytest.mark.filterwarnings("default::tests.costs.recorded.CostNews")

PAGE = 10


async def test_a_plain_turn(scale: Scale) -> None:
    async def turn() -> None:
        assert (await scale.speaker.send("echo")).task.state == "completed"

    judge("plain", await scale.weigh(turn))


async def test_a_turn_of_a_known_context(scale: Scale) -> None:
    async def turn() -> None:
        context = str(uuid.uuid4())
        for _ in range(2):
            assert (await scale.speaker.send("echo", context=context)).task.state == "completed"

    judge("two turns of one context", await scale.weigh(turn))


async def test_a_resumed_task(scale: Scale) -> None:
    async def turns() -> None:
        asked = (await scale.speaker.send("ask")).task
        assert asked.state == "input_required"
        answered = await scale.speaker.send("echo", context=asked.context, task=asked.id)
        assert answered.task.state == "completed"

    judge("ask and answer", await scale.weigh(turns))


async def test_a_bank_transfer(bank_scale: Scale) -> None:
    async def dialogue() -> None:
        task = (await bank_scale.speaker.send("I want to send money")).task
        for text in ("Bob", "50", "yes"):
            task = (await bank_scale.speaker.send(text, context=task.context)).task
        assert task.state == "completed"

    judge("bank transfer, four turns", await bank_scale.weigh(dialogue))


async def test_a_stream_whose_events_come_one_by_one(scale: Scale) -> None:
    async def stream() -> None:
        """Each chunk is made when the one before has arrived, so each is a batch of its own."""
        gates = uuid.uuid4().hex[:8]
        async with scale.speaker.stream(f"steps 5 {gates}") as reader:
            items = await reader.until("working")
            for number in range(5):
                scale.ledger.open(f"{gates}-{number}")
                items.append(await reader.next())
            items += await reader.rest()
        assert [item.text for item in items if item.kind == "artifact"] == ["0 ", "1 ", "2 ", "3 ", "4 "]

    judge("stream, five events one by one", await scale.weigh(stream))


async def test_a_stream_of_a_fast_agent(scale: Scale) -> None:
    async def stream() -> None:
        async with scale.speaker.stream("burst 100") as reader:
            assert len([item for item in await reader.rest() if item.kind == "artifact"]) == 100

    judge("stream, 100 events at once", await scale.weigh(stream))


async def test_a_replayed_duplicate(scale: Scale) -> None:
    message = str(uuid.uuid4())
    first = (await scale.speaker.send("echo", message_id=message)).task

    async def again() -> None:
        assert (await scale.speaker.send("echo", message_id=message)).task.id == first.id

    judge("replay", await scale.weigh(again))


async def test_a_duplicate_in_flight(scale: Scale) -> None:
    message, gate = str(uuid.uuid4()), uuid.uuid4().hex
    task = (await scale.speaker.send(f"hold {gate}", message_id=message, wait=False)).task

    async def again() -> None:
        assert (await scale.speaker.send(f"hold {gate}", message_id=message)).status == 409

    cost = await scale.weigh(again)
    scale.ledger.open(gate)
    await wait_until(lambda: scale.ledger.notes("end", task=task.id))
    judge("duplicate in flight", cost)


async def test_a_queued_turn(scale: Scale) -> None:
    async def turns() -> None:
        """The second waits for the first, which runs it when it has ended."""
        context, gate = str(uuid.uuid4()), uuid.uuid4().hex
        await scale.speaker.send(f"hold {gate}", context=context, wait=False)
        await scale.speaker.send("echo", context=context, wait=False)
        scale.ledger.open(gate)

    judge("a turn and a queued one", await scale.weigh(turns, until={"finish_turn": 2}))


async def test_a_cancel_of_running_work(scale: Scale) -> None:
    async def cancel() -> None:
        task = (await scale.speaker.send("hold never", wait=False)).task
        await wait_until(lambda: scale.ledger.notes("start", task=task.id))
        assert (await scale.speaker.cancel(task.id)).task.state == "canceled"

    judge("a turn and its cancel", await scale.weigh(cancel), racing="read_task")


async def test_a_cancel_of_a_waiting_task(scale: Scale) -> None:
    async def cancel() -> None:
        task = (await scale.speaker.send("ask")).task
        assert (await scale.speaker.cancel(task.id)).task.state == "canceled"

    judge("ask and cancel", await scale.weigh(cancel))


async def test_a_task_that_is_read(scale: Scale) -> None:
    task = (await scale.speaker.send("echo")).task

    async def get() -> None:
        assert (await scale.speaker.get(task.id)).task.state == "completed"

    judge("get", await scale.weigh(get))


async def test_a_page_of_tasks(scale: Scale) -> None:
    for _ in range(PAGE + 1):
        await scale.speaker.send("echo")

    async def page() -> None:
        assert len((await scale.speaker.list(pageSize=PAGE)).result["tasks"]) == PAGE

    judge("list, a page of ten", await scale.weigh(page))


async def test_a_stream_that_is_joined(scale: Scale) -> None:
    async def join() -> None:
        """A subscription to a running task, which brings what comes after it."""
        gates = uuid.uuid4().hex[:8]
        task = (await scale.speaker.send(f"steps 1 {gates}", wait=False)).task
        async with scale.speaker.subscribe(task.id) as reader:
            assert (await reader.next()).kind == "task"
            scale.ledger.open(f"{gates}-0")
            assert (await reader.rest())[-1].state == "completed"

    judge("a turn of one event and a subscription", await scale.weigh(join), racing="read_task")


async def test_a_pushed_end(push_scale: Scale) -> None:
    async with Hook() as hook:
        mine = Registrar(push_scale.speaker)

        async def turn() -> None:
            told = len(hook.told)
            await mine.send("echo", mine.config(hook.url))
            await hook.until(told + 1)

        judge("push of the end", await push_scale.weigh(turn, until={"release_push": 1}), racing="read_task")
