"""A message is accepted once, fleet-wide, whichever workers its copies reach."""

from __future__ import annotations

import asyncio
import uuid
from functools import partial

import pytest

from tests.processes.conftest import Callers
from tests.support.agents import Ledger
from tests.support.client import WIRES, Answer, Wire
from tests.support.fleet import Fleet
from tests.support.wait import wait_until


async def test_two_hundred_identical_messages_at_once_run_the_agent_once(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    context, message, gate = (uuid.uuid4().hex for _ in range(3))
    sends = [
        asyncio.create_task(at(fleet.nodes[i % 4]).send(f"hold {gate}", context=context, message_id=message))
        for i in range(200)
    ]

    # The gate opens only when all others were refused, so none of them can have come after the end.
    await wait_until(lambda: sum(send.done() for send in sends) == 199, seconds=40)
    ledger.open(gate)
    answers = await asyncio.gather(*sends)

    winners = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 409]
    assert (len(winners), len(refused)) == (1, 199)
    task = winners[0].task
    assert task.state == "completed"
    assert {answer.fault.details["taskId"] for answer in refused} == {task.id}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert len(ledger.notes("start", message=message)) == 1


async def test_copies_sent_while_the_turn_runs_and_ends_run_the_agent_once(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    context, message = uuid.uuid4().hex, uuid.uuid4().hex
    answers: list[Answer] = await asyncio.gather(
        *(at(fleet.nodes[i % 4]).send("echo", context=context, message_id=message) for i in range(200))
    )

    assert {answer.status for answer in answers} <= {200, 409}
    assert len({answer.task.id for answer in answers if answer.status == 200}) == 1
    assert all(answer.task.state == "completed" for answer in answers if answer.status == 200)
    assert len(ledger.notes("start", message=message)) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_retry_on_another_worker_replays_the_task(
    fleet: Fleet, at: Callers, ledger: Ledger, wire: Wire
) -> None:
    message = str(uuid.uuid4())
    first = (await at(fleet.nodes[0], wire).send("echo", message_id=message)).task
    again = [(await at(node, wire).send("echo", message_id=message)).task for node in fleet.nodes]

    assert [task.raw for task in again] == [first.raw] * 4
    assert len(ledger.notes("start", message=message)) == 1


async def test_r08_two_first_messages_of_a_context_run_one_after_the_other(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    for _ in range(5):
        context, gate = uuid.uuid4().hex, uuid.uuid4().hex
        sends = [asyncio.create_task(at(node).send(f"hold {gate}", context=context)) for node in fleet.nodes[:2]]
        await wait_until(partial(ledger.notes, "start", context=context))
        ledger.open(gate)
        tasks = [answer.task for answer in await asyncio.gather(*sends)]

        assert sorted(len(task.data["heard"]) for task in tasks) == [1, 2]
        happened = [note["what"] for note in ledger.notes(context=context)]
        assert happened == ["start", "end", "start", "end"]
