"""Cancel in every dialect and binding: what it answers, and what it leaves."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.http.conftest import Dial, Serve, started
from tests.support.agents import Ledger
from tests.support.client import Wire


@pytest.mark.parametrize("text", ["hold never", "work never", "stream 4 never"])
async def test_a_running_task_is_stopped_and_answered_as_canceled(
    dial: Dial, ledger: Ledger, wire: Wire, text: str
) -> None:
    waiting = asyncio.create_task(dial(wire).send(text, context=(context := uuid.uuid4().hex)))
    task_id = (await started(ledger, context=context))["task"]
    canceled = (await dial(wire).cancel(task_id)).task
    assert (canceled.id, canceled.state, canceled.text) == (task_id, "canceled", "let go")
    assert canceled.metadata == {"cancel_reason": "requested"}
    assert (await waiting).task.raw == canceled.raw
    assert (await dial(wire).get(task_id)).task.raw == canceled.raw
    assert ledger.notes("stopped", task=task_id)


async def test_what_was_shown_before_the_cancel_is_kept(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    async with dial(wire).stream("stream 4 never") as reader:
        items = [await reader.next() for _ in range(4)]
        canceled = (await dial(wire).cancel(items[0].id)).task
        rest = await reader.rest()
    assert canceled.artifacts == ["0 1 "]
    assert (rest[-1].kind, rest[-1].state) == ("status", "canceled")


@pytest.mark.parametrize("text", ["ask", "login"])
async def test_a_waiting_task_is_canceled_through_the_hook(dial: Dial, ledger: Ledger, wire: Wire, text: str) -> None:
    asked = (await dial(wire).send(text)).task
    async with dial(wire).subscribe(asked.id) as reader:
        await reader.next()
        canceled = (await dial(wire).cancel(asked.id)).task
        rest = await reader.rest()
    assert (canceled.state, canceled.text) == ("canceled", "let go")
    assert [item.state for item in rest] == ["canceled"]
    assert len(ledger.notes("on_cancel", task=asked.id)) == 1


@pytest.mark.parametrize("text", ["echo", "raise", "reject"])
async def test_an_ended_task_can_not_be_canceled(dial: Dial, wire: Wire, text: str) -> None:
    task = (await dial(wire).send(text)).task
    refused = await dial(wire).cancel(task.id)
    assert refused.fault.code == -32002
    assert refused.status == (400 if wire == "rest" else 200)
    assert (await dial(wire).get(task.id)).task.raw == task.raw


async def test_a_second_cancel_comes_too_late(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    assert (await dial(wire).cancel(asked.id)).task.state == "canceled"
    assert (await dial(wire).cancel(asked.id)).fault.code == -32002


async def test_r22_a_queued_task_is_removed(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    await dial(wire).send(f"hold {gate}", context=context, wait=False)
    queued = (await dial(wire).send("echo never", context=context, wait=False)).task
    async with dial(wire).subscribe(queued.id) as reader:
        await reader.next()
        assert (await dial(wire).cancel(queued.id)).task.state == "canceled"
        assert [item.state for item in await reader.rest()] == ["canceled"]
    ledger.open(gate)
    last = (await dial(wire).send("echo last", context=context)).task
    assert last.data["heard"] == [f"hold {gate}", "echo last"]


async def test_r24_a_stubborn_agent_is_told_as_not_stopped(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(cancel_wait_seconds=0.5)
    task = (await dial(wire, served).send("defy gate", wait=False)).task
    await started(served.ledger, task=task.id)
    canceled = (await dial(wire, served).cancel(task.id)).task
    assert (canceled.state, canceled.metadata["stopped"]) == ("canceled", False)
    assert (await dial(wire, served).send("echo", context=task.context)).task.data["heard"] == ["echo"]
    served.ledger.open("gate")
    assert (await dial(wire, served).get(task.id)).task.raw == canceled.raw
