"""Agents that hold the loop, compute in threads, or are run again: what their worker and their callers see of it."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes.conftest import Callers, quick_settings
from tests.support.agents import Ledger
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_for_state, wait_found, wait_until


@contextmanager
def agents(real_engine: Engine, agent: str, count: int, **own: Any) -> Iterator[tuple[Fleet, Ledger]]:
    with tempfile.TemporaryDirectory(prefix="ns-fleet-") as path:
        folder = Path(path)
        with running_fleet(count, quick_settings(real_engine, **own), folder, agent=agent) as fleet:
            yield fleet, Ledger(folder)


async def test_a_blocked_loop_is_noticed_while_it_stands_and_the_agent_named(real_engine: Engine, at: Callers) -> None:
    with agents(real_engine, "Puppet", 1, presumed_dead_seconds=60) as (fleet, ledger):
        (node,) = fleet.nodes
        gate = uuid.uuid4().hex
        blocked = asyncio.create_task(at(node).send(f"block {gate}"))
        await wait_until(lambda: "a2a_server.loop.blocked" in node.log)
        assert not blocked.done()
        ledger.open(gate)
        task = (await blocked).task
        assert task.state == "completed"
        line = next(line for line in node.log.splitlines() if "a2a_server.loop.blocked" in line)
        assert "agent=Puppet" in line
        assert f"in=agent {task.id}" in line
        assert "agents.py" in line


async def test_a_threaded_agent_computes_while_its_worker_answers(real_engine: Engine, at: Callers) -> None:
    with agents(real_engine, "Threaded", 1) as (fleet, ledger):
        caller = at(fleet.nodes[0])
        gate, context = uuid.uuid4().hex, uuid.uuid4().hex
        blocked = asyncio.create_task(caller.send(f"block {gate}", context=context))
        await wait_until(lambda: ledger.notes("start", text=f"block {gate}"))

        # Streams of other turns, each in a thread of its own, keep their order.
        async with caller.stream("stream 500") as reader:
            items = await reader.rest()
        assert [item.text for item in items if item.kind == "artifact"] == [f"{n} " for n in range(500)]
        assert items[-1].state == "completed"
        assert (await caller.send("raise")).task.data["error_type"] == "ValueError"
        assert not blocked.done()
        ledger.open(gate)

        assert (await blocked).task.state == "completed"
        assert (await caller.send("echo", context=context)).task.data["heard"] == [f"block {gate}", "echo"]
        assert "loop.blocked" not in fleet.nodes[0].log


@pytest.mark.parametrize(("text", "stopped"), [("work never", None), ("block never", False)])
async def test_a_threaded_agent_is_cancelled_at_its_next_await(
    real_engine: Engine, at: Callers, text: str, stopped: bool | None
) -> None:
    with agents(real_engine, "Threaded", 1, cancel_wait_seconds=2) as (fleet, ledger):
        caller = at(fleet.nodes[0])
        task = (await caller.send(text, wait=False)).task
        await wait_until(lambda: ledger.notes("start", task=task.id))
        canceled = (await caller.cancel(task.id)).task
        assert canceled.state == "canceled"
        assert canceled.metadata.get("stopped") is stopped
        assert bool(ledger.notes("stopped", task=task.id)) is (stopped is None)
        # A thread that never ends keeps nobody from ending.
        fleet.nodes[0].terminate()
        assert await fleet.nodes[0].gone() == 0


async def test_a_replayed_turn_begins_its_artifacts_anew_and_is_tried_so_often_only(
    real_engine: Engine, at: Callers
) -> None:
    with agents(real_engine, "Twice", 3) as (fleet, ledger):
        first, _, third = fleet.nodes
        half, never = uuid.uuid4().hex, uuid.uuid4().hex
        replayed = (await at(first).send(f"stream 6 {half}", wait=False)).task
        hopeless = (await at(first).send(f"stream 6 {never}", wait=False)).task
        for task in (replayed, hopeless):
            await wait_found(lambda task=task: has_pieces(at, fleet, task.id))  # type: ignore[misc]
        async with at(third).subscribe(replayed.id) as reader:
            assert (await reader.next()).artifacts == ["0 1 2 "]
            first.kill()
            again = await reader.next()
            assert (again.kind, again.text, again.raw.get("append", False)) == ("artifact", "0 ", False)
            await wait_until(lambda: len(ledger.notes("start", task=hopeless.id)) == 2)
            ledger.open(half)
            rest = await reader.rest()
            assert rest[-1].state == "completed"
        done = (await at(third).get(replayed.id)).task
        assert done.artifacts == ["0 1 2 3 4 5 "]
        assert [run["attempt"] for run in ledger.notes("start", task=replayed.id)] == [1, 2]

        fleet.of_pid(ledger.notes("start", task=hopeless.id)[1]["pid"]).kill()
        failed = await wait_for_state(at.all(fleet), hopeless.id, "failed")
        assert failed.data["error_type"] == "worker_lost"
        assert [run["attempt"] for run in ledger.notes("start", task=hopeless.id)] == [1, 2]


async def has_pieces(at: Callers, fleet: Fleet, task_id: str) -> bool:
    return (await at(fleet.nodes[0]).get(task_id)).task.artifacts == ["0 1 2 "]
