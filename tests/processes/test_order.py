"""Turns of one context are taken one at a time, in arrival order, whichever workers take them."""

from __future__ import annotations

import asyncio
import uuid

from tests.processes.conftest import Callers
from tests.support.agents import Ledger
from tests.support.fleet import Fleet
from tests.support.wait import wait_for_state, wait_until


async def test_messages_run_in_the_order_they_were_accepted_on_four_workers(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    texts = [f"hold {gate} {number}" for number in range(13)]
    tasks = []
    for number, text in enumerate(texts):
        answer = await at(fleet.nodes[number % 4]).send(text, context=context, wait=False)
        tasks.append(answer.task)
    assert [task.state for task in tasks] == ["working"] + ["submitted"] * 12

    ledger.open(gate)
    last = await wait_for_state(at.all(fleet), tasks[-1].id, "completed")

    assert last.data["heard"] == texts
    happened = [(note["what"], note["text"]) for note in ledger.notes(context=context)]
    assert happened == [(what, text) for text in texts for what in ("start", "end")]


async def test_blocking_senders_on_four_workers_all_get_their_own_outcome(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    sends = [asyncio.create_task(at(fleet.nodes[i % 4]).send(f"hold {gate} {i}", context=context)) for i in range(12)]
    await wait_until(lambda: ledger.notes("start", context=context))
    ledger.open(gate)

    tasks = [answer.task for answer in await asyncio.gather(*sends)]

    assert [task.text for task in tasks] == [f"echo: hold {gate} {i}" for i in range(12)]
    assert sorted(len(task.data["heard"]) for task in tasks) == list(range(1, 13))
    happened = [note["what"] for note in ledger.notes(context=context)]
    assert happened == ["start", "end"] * 12


async def test_the_session_saved_on_one_worker_is_seen_on_the_next(fleet: Fleet, at: Callers) -> None:
    context = uuid.uuid4().hex
    for number, node in enumerate(fleet.nodes, 1):
        task = (await at(node).send(f"echo {number}", context=context)).task
        assert task.data["heard"] == [f"echo {i}" for i in range(1, number + 1)]
        assert task.data["pid"] == node.pid


async def test_a_question_asked_on_one_worker_is_answered_on_another(fleet: Fleet, at: Callers) -> None:
    asked = (await at(fleet.nodes[0]).send("ask")).task
    assert asked.state == "input_required"

    answered = (await at(fleet.nodes[1]).send("echo blue", task=asked.id)).task

    assert (answered.id, answered.context, answered.state) == (asked.id, asked.context, "completed")
    assert answered.data["heard"] == ["ask", "echo blue"]
    assert answered.history == ["ask", "what?", "echo blue", "echo: echo blue"][: len(answered.history)]


async def test_many_contexts_do_not_wait_for_each_other(fleet: Fleet, at: Callers, ledger: Ledger) -> None:
    gate = uuid.uuid4().hex
    held = asyncio.create_task(at(fleet.nodes[0]).send(f"hold {gate}"))
    others = await asyncio.gather(*(at(fleet.nodes[i % 4]).send(f"echo {i}") for i in range(40)))

    assert {answer.task.state for answer in others} == {"completed"}
    assert not held.done()
    ledger.open(gate)
    assert (await held).task.state == "completed"
