"""A cancel sent to any worker stops the work on the worker that runs it."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from functools import partial
from pathlib import Path

import pytest

from server.auth.caller import ANONYMOUS
from stores import Store
from stores.keys import ContextRef
from tests.processes.conftest import Callers, queue_is, quick_settings
from tests.support.agents import Ledger
from tests.support.client import WIRES, Speaker, Wire
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_for_state, wait_found, wait_until


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cancel_on_another_worker_stops_the_agent_before_it_is_answered(
    fleet: Fleet, at: Callers, ledger: Ledger, wire: Wire
) -> None:
    context = uuid.uuid4().hex
    waiting = asyncio.create_task(at(fleet.nodes[0], wire).send("work never", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))
    task_id = ledger.notes("start", context=context)[0]["task"]

    canceled = (await at(fleet.nodes[1], wire).cancel(task_id)).task

    assert [note["what"] for note in ledger.notes(context=context)] == ["start", "stopped", "on_cancel"]
    assert (canceled.id, canceled.state, canceled.text) == (task_id, "canceled", "let go")
    assert canceled.metadata["cancel_reason"] == "requested"
    assert "stopped" not in canceled.metadata
    assert (await waiting).task.raw == canceled.raw
    assert (await at(fleet.nodes[2], wire).cancel(task_id)).fault.code == -32002
    assert (await at(fleet.nodes[3], wire).send("echo", context=context)).task.state == "completed"


async def test_the_answer_waits_for_the_agents_clean_up(fleet: Fleet, at: Callers, ledger: Ledger) -> None:
    gate = uuid.uuid4().hex
    task = (await at(fleet.nodes[0]).send(f"linger never {gate}", wait=False)).task
    await wait_until(lambda: ledger.notes("start", task=task.id))
    canceling = asyncio.create_task(at(fleet.nodes[1]).cancel(task.id))
    await wait_until(lambda: ledger.notes("cleaning", task=task.id))
    assert (await at(fleet.nodes[2]).get(task.id)).task.state == "working"
    assert not canceling.done()

    ledger.open(gate)

    assert (await canceling).task.state == "canceled"
    assert ledger.notes("cleaned", task=task.id)


async def test_a_cancel_whose_signal_goes_nowhere_is_found_at_the_next_heartbeat(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = (await at(fleet.nodes[0]).send("hold never", wait=False)).task
    await wait_until(lambda: ledger.notes("start", task=task.id))
    monkeypatch.setattr(store.keys, "worker_channel", "nobody-listens-here:")

    context = ContextRef.of(ANONYMOUS.key, task.context)
    asked = await store.turns.cancel_task(context, task.id, based="0-0", state="canceled", doc="{}", event="{}")

    assert asked.word == "requested"
    await wait_for_state(at.all(fleet), task.id, "canceled")
    assert ledger.notes("stopped", task=task.id)


async def test_a_cancel_right_after_all_pubsub_connections_broke_still_stops_the_work(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    for _ in range(5):
        task = (await at(fleet.nodes[0]).send("hold never", wait=False)).task
        await wait_until(partial(ledger.notes, "start", task=task.id))
        await store.client.call("CLIENT", "KILL", "TYPE", "pubsub")
        assert (await at(fleet.nodes[1]).cancel(task.id)).task.state == "canceled"
        assert ledger.notes("stopped", task=task.id)


async def test_a_waiting_task_is_canceled_through_the_agents_hook_and_frees_its_context(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    asked = (await at(fleet.nodes[0]).send("ask")).task
    ref = ContextRef.of(ANONYMOUS.key, asked.context).text
    assert await store.client.call("ZSCORE", store.keys.live, ref) is not None

    canceled = (await at(fleet.nodes[1]).cancel(asked.id)).task

    assert (canceled.state, canceled.text) == ("canceled", "let go")
    assert len(ledger.notes("on_cancel", task=asked.id)) == 1
    assert await store.client.call("ZSCORE", store.keys.live, ref) is None
    again = (await at(fleet.nodes[2]).send("echo", context=asked.context)).task
    assert again.data["heard"] == ["ask", "(canceled)", "echo"]


async def test_r20_a_cancel_sent_as_soon_as_the_task_is_known_is_not_lost(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    async def once(number: int) -> str:
        task = (await at(fleet.nodes[number % 4]).send("hold never", wait=False)).task
        canceled = (await at(fleet.nodes[(number + 1) % 4]).cancel(task.id)).task
        assert canceled.state == "canceled"
        assert "stopped" not in canceled.metadata
        return task.id

    ids = await asyncio.gather(*(once(number) for number in range(24)))
    for task_id in ids:
        assert len(ledger.notes("start", task=task_id)) == len(ledger.notes("stopped", task=task_id))


async def test_r21_a_cancel_and_the_end_of_the_work_agree_on_one_outcome(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    async def once(number: int) -> str:
        gate = uuid.uuid4().hex
        task = (await at(fleet.nodes[number % 4]).send(f"hold {gate}", wait=False)).task
        await wait_until(lambda: ledger.notes("start", task=task.id))
        ledger.open(gate)
        answer = await at(fleet.nodes[(number + 1) % 4]).cancel(task.id)
        stored = await wait_for_state(at.all(fleet), task.id, "completed" if "error" in answer.body else "canceled")
        if "error" in answer.body:
            assert answer.fault.code == -32002
            assert ledger.notes("end", task=task.id)
        else:
            assert answer.task.raw == stored.raw
        return stored.state

    assert set(await asyncio.gather(*(once(number) for number in range(24)))) <= {"canceled", "completed"}


@pytest.mark.parametrize("wire", WIRES)
async def test_r22_a_queued_turn_is_canceled_on_another_worker_and_never_runs(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store, wire: Wire
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    running = asyncio.create_task(at(fleet.nodes[0], wire).send(f"hold {gate}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))
    queued = (await at(fleet.nodes[1], wire).send("echo first", context=context, wait=False)).task
    message = str(uuid.uuid4())
    waiting = asyncio.create_task(at(fleet.nodes[2], wire).send("echo second", context=context, message_id=message))
    await wait_found(lambda: queue_is(store, context, 2))
    second = await task_of(at(fleet.nodes[3]), context, message)

    assert (await at(fleet.nodes[3], wire).cancel(second)).task.state == "canceled"

    assert (await waiting).task.state == "canceled"
    ledger.open(gate)
    assert (await running).task.state == "completed"
    await wait_for_state(at.all(fleet, wire), queued.id, "completed")
    texts = [note["text"] for note in ledger.notes("start", context=context)]
    assert texts == [f"hold {gate}", "echo first"]
    assert (await at(fleet.nodes[0], wire).send("echo second", context=context, message_id=message)).task.id == second


async def task_of(speaker: Speaker, context: str, message: str) -> str:
    """The task that a message became."""
    tasks = (await speaker.list(contextId=context)).result["tasks"]
    return next(str(task["id"]) for task in tasks if task["history"][0]["messageId"] == message)


async def test_r23_an_idle_cancel_and_a_new_message_take_turns(fleet: Fleet, at: Callers, ledger: Ledger) -> None:
    async def once(number: int) -> None:
        asked = (await at(fleet.nodes[number % 4]).send("ask")).task
        answer, canceled = await asyncio.gather(
            at(fleet.nodes[(number + 1) % 4]).send("echo yes", task=asked.id),
            at(fleet.nodes[(number + 2) % 4]).cancel(asked.id),
        )
        state = (await at(fleet.nodes[number % 4]).get(asked.id)).task.state
        if "error" in canceled.body:
            assert canceled.fault.code == -32002
            assert (answer.task.state, state) == ("completed", "completed")
        else:
            assert (canceled.task.state, state) == ("canceled", "canceled")
            if "error" in answer.body:
                assert answer.fault.code == -32004
                assert not ledger.notes("start", task=asked.id, text="echo yes")
            else:
                assert answer.task.state == "canceled"

    await asyncio.gather(*(once(number) for number in range(16)))


async def test_r23_a_cancel_that_waits_behind_the_answer_comes_too_late(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    gate = uuid.uuid4().hex
    asked = (await at(fleet.nodes[0]).send("ask")).task
    before = asyncio.create_task(at(fleet.nodes[1]).send(f"hold {gate}", context=asked.context))
    await wait_until(lambda: ledger.notes("start", text=f"hold {gate}"))
    answering = asyncio.create_task(at(fleet.nodes[2]).send("echo yes", task=asked.id))
    await wait_found(lambda: queue_is(store, asked.context, 1))
    canceling = asyncio.create_task(at(fleet.nodes[3]).cancel(asked.id))
    await wait_found(lambda: queue_is(store, asked.context, 2))

    ledger.open(gate)

    assert (await before).task.state == "completed"
    assert (await answering).task.state == "completed"
    assert (await canceling).fault.code == -32002
    assert not ledger.notes("on_cancel", task=asked.id)


async def test_r23_an_answer_that_waits_behind_the_cancel_finds_the_task_closed(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    gate, message = uuid.uuid4().hex, str(uuid.uuid4())
    asked = (await at(fleet.nodes[0]).send("ask")).task
    before = asyncio.create_task(at(fleet.nodes[1]).send(f"hold {gate}", context=asked.context))
    await wait_until(lambda: ledger.notes("start", text=f"hold {gate}"))
    canceling = asyncio.create_task(at(fleet.nodes[3]).cancel(asked.id))
    await wait_found(lambda: queue_is(store, asked.context, 1))
    answering = asyncio.create_task(at(fleet.nodes[2]).send("echo yes", task=asked.id, message_id=message))
    await wait_found(lambda: queue_is(store, asked.context, 2))

    ledger.open(gate)

    assert (await before).task.state == "completed"
    assert (await canceling).task.state == "canceled"
    assert (await answering).fault.code == -32004
    # A retry of it meets the same outcome.
    assert (await at(fleet.nodes[1]).send("echo yes", task=asked.id, message_id=message)).fault.code == -32004
    assert not ledger.notes("start", message=message)


async def test_two_cancels_at_once_on_two_workers_agree(fleet: Fleet, at: Callers, ledger: Ledger) -> None:
    for text in ("hold never", "ask"):
        task = (await at(fleet.nodes[0]).send(text, wait=False)).task
        await wait_until(partial(ledger.notes, "start", task=task.id))
        answers = await asyncio.gather(at(fleet.nodes[1]).cancel(task.id), at(fleet.nodes[2]).cancel(task.id))
        assert any("error" not in answer.body for answer in answers)
        for answer in answers:
            if "error" in answer.body:
                assert answer.fault.code == -32002
            else:
                assert answer.task.state == "canceled"
        assert len(ledger.notes("on_cancel", task=task.id)) == 1


async def test_r24_a_stubborn_agent_is_fenced_off_and_its_context_goes_on(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    gate = uuid.uuid4().hex
    task = (await at(fleet.nodes[0]).send(f"defy {gate}", wait=False)).task
    await wait_until(lambda: ledger.notes("start", task=task.id))

    canceled = (await at(fleet.nodes[1]).cancel(task.id)).task

    assert ledger.notes("swallowed", task=task.id)
    assert canceled.state == "canceled"
    assert canceled.metadata["stopped"] is False
    assert (await at(fleet.nodes[2]).send("echo", context=task.context)).task.state == "completed"
    ledger.open(gate)
    await wait_until(lambda: ledger.notes("writing late", task=task.id))
    await wait_until(lambda: ledger.notes("stopped", task=task.id))
    assert (await at(fleet.nodes[3]).get(task.id)).task.raw == canceled.raw


async def test_r24_a_worker_that_does_not_answer_at_all_loses_the_canceled_turn(
    real_engine: Engine, at: Callers
) -> None:
    settings = quick_settings(real_engine, cancel_wait_seconds=1, presumed_dead_seconds=60)
    with tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder:
        ledger = Ledger(Path(folder))
        with running_fleet(2, settings, Path(folder)) as pair:
            stuck, other = pair.nodes
            task = (await at(stuck).send("work never", wait=False)).task
            await wait_until(lambda: ledger.notes("start", task=task.id))
            stuck.pause()

            canceled = (await at(other).cancel(task.id)).task

            assert (canceled.state, canceled.metadata["stopped"]) == ("canceled", False)
            assert (await at(other).send("echo", context=task.context)).task.state == "completed"
            stuck.resume()
            await wait_until(lambda: ledger.notes("stopped", task=task.id))
            assert (await at(stuck).get(task.id)).task.raw == canceled.raw
