"""Streams of messages: what they begin with, what they show, and where they end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from server.auth.caller import ANONYMOUS
from server.protocol.model import GetTask, Message, Part, Role, SendMessage, StatusUpdate, Task
from server.turns.follow import Following
from server.turns.service import Service
from stores import Store
from tests.http.conftest import Dial, Served, queue_is, started
from tests.support.agents import Ledger
from tests.support.client import Item, Wire
from tests.support.wait import wait_for_state, wait_found

Result = TypeVar("Result")


def shape(items: list[Item]) -> list[str]:
    return [item.kind if item.kind == "artifact" else f"{item.kind} {item.state}" for item in items]


async def test_a_stream_begins_with_the_task_and_ends_with_its_last_status(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 3") as reader:
        items = await reader.rest()
    assert shape(items) == ["task submitted", "status working", "artifact", "artifact", "artifact", "status completed"]
    assert {item.id for item in items} == {items[0].id}
    assert {item.context for item in items} == {items[0].context}
    assert items[-1].text == "echo: stream 3"
    stored = (await dial(wire).get(items[0].id)).task
    assert stored.raw["status"] == items[-1].raw["status"]


async def test_pieces_of_an_artifact_say_how_they_belong_together(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 3") as reader:
        pieces = [item.raw for item in await reader.rest() if item.kind == "artifact"]
    assert [piece.get("append", False) for piece in pieces] == [False, True, True]
    assert [piece.get("lastChunk", False) for piece in pieces] == [False, False, True]
    assert len({piece["artifact"]["artifactId"] for piece in pieces}) == 1


async def test_a_03_stream_marks_its_last_status_final_and_shows_one_task(dial: Dial) -> None:
    async with dial("0.3").stream("stream 2") as reader:
        items = await reader.rest()
    assert [item.raw["final"] for item in items if item.kind == "status"] == [False, True]
    assert [item.kind for item in items].count("task") == 1
    assert all("final" not in item.raw for item in items if item.kind != "status")


@pytest.mark.parametrize(("text", "state"), [("ask", "input_required"), ("login", "auth_required")])
async def test_a_stream_ends_where_the_caller_is_asked(dial: Dial, wire: Wire, text: str, state: str) -> None:
    async with dial(wire).stream(text) as reader:
        items = await reader.rest()
    assert shape(items)[-1] == f"status {state}"
    if wire == "0.3":
        assert items[-1].raw["final"] is True


@pytest.mark.parametrize(("text", "state"), [("raise", "failed"), ("reject", "rejected"), ("give_up", "failed")])
async def test_an_agent_that_fails_in_a_stream_is_a_normal_last_event(
    dial: Dial, wire: Wire, text: str, state: str
) -> None:
    async with dial(wire).stream(text) as reader:
        assert shape(await reader.rest())[-1] == f"status {state}"


async def test_the_stream_of_a_follow_up_begins_with_the_task_as_it_is(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    async with dial(wire).stream("stream 2", task=asked.id) as reader:
        items = await reader.rest()
    assert shape(items) == ["task working", "artifact", "artifact", "status completed"]
    assert items[0].history[-1] == "stream 2"
    assert {item.id for item in items} == {asked.id}


async def test_the_stream_of_a_queued_message_waits_for_its_own_turn(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    await dial(wire).send(f"hold {gate}", context=context, wait=False)
    async with dial(wire).stream("stream 2", context=context) as reader:
        first = await reader.next()
        assert shape([first]) == ["task submitted"]
        ledger.open(gate)
        rest = await reader.rest()
    assert shape(rest) == ["status working", "artifact", "artifact", "status completed"]


async def test_the_stream_of_a_queued_answer_does_not_end_with_the_turn_before_it(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    asked = (await dial(wire).send("ask")).task
    gate = uuid.uuid4().hex
    before = asyncio.create_task(dial(wire).send(f"hold {gate}", context=asked.context))
    await started(ledger, text=f"hold {gate}")
    # Two answers wait for the same task; the first one makes it ask again, which is no end for the second.
    first = asyncio.create_task(dial(wire).send("ask again", task=asked.id))
    await wait_found(lambda: queue_is(store, asked.context, 1))
    async with dial(wire).stream("echo done", task=asked.id) as reader:
        assert shape([await reader.next()]) == ["task input_required"]
        ledger.open(gate)
        items = await reader.rest()
    assert (await before).task.state == "completed"
    assert (await first).task.id == asked.id
    assert shape(items)[-1] == "status completed"
    assert shape(items).count("status completed") == 1


async def test_a_subscription_begins_with_the_task_and_follows_it(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    half = uuid.uuid4().hex
    task = (await dial(wire).send(f"stream 4 {half}", wait=False)).task
    await started(ledger, task=task.id)
    async with dial(wire).subscribe(task.id) as reader:
        snapshot = await reader.next()
        ledger.open(half)
        rest = await reader.rest()
    assert snapshot.kind == "task"
    text = "".join([*snapshot.artifacts, *(item.text for item in rest if item.kind == "artifact")])
    assert text == "0 1 2 3 "
    assert shape(rest)[-1] == "status completed"
    assert "task" not in [item.kind for item in rest]


async def test_a_subscription_to_a_waiting_task_stays_for_the_next_turn(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    async with dial(wire).subscribe(asked.id) as reader:
        assert shape([await reader.next()]) == ["task input_required"]
        await dial(wire).send("echo yes", task=asked.id)
        assert shape(await reader.rest()) == ["status working", "status completed"]


async def test_a_task_that_has_ended_or_never_was_can_not_be_subscribed_to(dial: Dial, wire: Wire) -> None:
    done = (await dial(wire).send("echo")).task
    for task_id, code in ((done.id, -32004), (str(uuid.uuid4()), -32001)):
        async with dial(wire).subscribe(task_id) as reader:
            if wire == "0.3":
                frame = await reader.frame()
                assert frame is not None
                assert frame.fault is not None
                assert frame.fault.code == code
            else:
                assert (await reader.answer()).fault.code == code


async def test_every_stream_of_a_task_shows_the_same_events(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    half = uuid.uuid4().hex
    async with dial(wire).stream(f"stream 20 {half}") as first:
        task = await first.next()
        async with dial(wire).subscribe(task.id) as second, dial(wire).subscribe(task.id) as third:
            joined = [await second.next(), await third.next()]
            ledger.open(half)
            items, *others = await asyncio.gather(first.rest(), second.rest(), third.rest())
    for snapshot, seen in zip(joined, others, strict=True):
        known = len("".join(snapshot.artifacts).split())
        artifacts = [item.raw for item in items if item.kind == "artifact"][known:]
        assert [item.raw for item in seen if item.kind == "artifact"] == artifacts
        assert seen[-1].raw == items[-1].raw


async def test_leaving_a_stream_leaves_the_turn_and_its_other_streams_alone(
    dial: Dial, ledger: Ledger, wire: Wire
) -> None:
    half = uuid.uuid4().hex
    async with dial(wire).stream(f"stream 6 {half}") as leaving:
        task = await leaving.next()
        async with dial(wire).subscribe(task.id) as staying:
            await staying.next()
            await leaving.response.aclose()
            ledger.open(half)
            assert shape(await staying.rest())[-1] == "status completed"
    await wait_for_state([dial(wire)], task.id, "completed")


async def test_a_stream_that_is_repeated_after_its_end_is_the_task_alone(dial: Dial, wire: Wire) -> None:
    message = str(uuid.uuid4())
    async with dial(wire).stream("stream 2", message_id=message) as reader:
        first = await reader.rest()
    async with dial(wire).stream("stream 2", message_id=message) as reader:
        [again] = await reader.rest()
    assert (again.kind, again.id, again.state) == ("task", first[0].id, "completed")
    assert again.artifacts == ["0 1 "]


async def in_server(server: Served, work: Coroutine[Any, Any, Result]) -> Result:
    """Runs the coroutine on the server's loop."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, server.loop))


async def test_r34_what_came_while_a_stream_was_not_asked_for_more_is_shown_without_waiting_for_another_event(
    server: Served,
) -> None:
    """The first event is under way to a slow client; meanwhile the agent shows something, and then is silent."""

    async def scenario() -> str:
        node = server.app.state.node
        service = Service(node.worker, Following(node.store, node.worker.hub))
        message = Message(str(uuid.uuid4()), Role.USER, (Part("text", "work never"),))
        items = await service.stream_message(ANONYMOUS.key, SendMessage(message), None)
        first = await anext(items)
        assert isinstance(first.item, Task)
        task_id = first.item.id

        async def shown() -> bool:
            task = await service.get_task(ANONYMOUS.key, GetTask(task_id))
            return task.status.message is not None

        await wait_found(shown)
        async with asyncio.timeout(5):
            async for seen in items:
                if isinstance(seen.item, StatusUpdate) and seen.item.status.message is not None:
                    break
        await items.aclose()
        return task_id

    task_id = await in_server(server, scenario())
    node = server.app.state.node
    server.loop.call_soon_threadsafe(node.worker.running[task_id].cancel, "requested")
