"""A worker dies before and after each operation of the store that its turns take; another one puts everything right."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.crash.cell import Cell
from tests.crash.judge import Judge
from tests.crash.scenes import SCENES, Scene
from tests.push.hooks import Hook
from tests.support.client import new_client
from tests.support.crash import PARTS, Point
from tests.support.engines import Engine, engine
from tests.support.lapse import assert_all_keys_lapse
from tests.support.zygote import Zygote, zygote

# Cells at a time: each is a process or two that mostly waits.
AT_ONCE = 12
# A victim that met its point in the first run may miss it in another: two batches of events became one.
TRIES = 4
# Later calls of an operation are like the second one; of these, any is like the first.
MOST_CALLS = {"beat_worker": 1, "running_marks": 1, "read_task": 1}
# Operations that no turn takes, or that change nothing a crash could leave half done.
ELSEWHERE = {
    "list_tasks": "reads",
    "read_message": "reads",
    "running": "reads",
    "workers": "reads",
    "schema": "reads",
    "take_namespace": "a worker's start, before it can have a turn",
    "list_dead_letters": "reads",
    "retry_dead_letter": "an operator's",
    "ask_reload": "an operator's",
    "put_push_config": "a caller's own call, and one script",
    "drop_push_config": "a caller's own call, and one script",
}


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="module")
def nursery() -> Iterator[Zygote]:
    with tempfile.TemporaryDirectory(prefix="ns-crash-") as folder, zygote(Path(folder)) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


def test_every_operation_of_a_turn_is_met_by_some_scene() -> None:
    met = {name for scene in SCENES.values() for name in scene.meets}
    there = {
        name
        for part in PARTS
        for name, _ in inspect.getmembers(part, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert met | ELSEWHERE.keys() == there


@pytest.mark.parametrize("name", SCENES)
async def test_a_crash_at_any_step_loses_nothing(
    name: str, real_engine: Engine, nursery: Zygote, http: httpx.AsyncClient
) -> None:
    scene = SCENES[name]
    calls, problems = await played(scene, None, real_engine, nursery, http)
    assert not problems, "without any crash"
    assert scene.meets <= calls.keys()
    points = [
        Point(scene.since, operation, nth, side)
        for operation in scene.meets
        for nth in range(1, min(calls[operation], MOST_CALLS.get(operation, 2)) + 1)
        for side in ("before", "after")
    ]
    room = asyncio.Semaphore(AT_ONCE)

    async def crash(point: Point) -> list[str]:
        async with room:
            for _ in range(TRIES):
                calls, problems = await played(scene, point, real_engine, nursery, http)
                if problems or not calls:
                    return problems
            return [f"{point}: was not met"]

    found = await asyncio.gather(*(crash(point) for point in points))
    broken = [problem for problems in found for problem in problems]
    print(f"{name}: {len(points)} crashes")
    assert not broken, "\n".join(broken)
    await assert_all_keys_lapse(real_engine.url)


async def played(
    scene: Scene, point: Point | None, real_engine: Engine, nursery: Zygote, http: httpx.AsyncClient
) -> tuple[Counter[str], list[str]]:
    """The operations that a victim called who did not meet its point, and what was wrong afterwards."""
    async with Hook() as hook:
        cell = Cell(real_engine, nursery, http, scene.agent, hook)
        try:
            await scene.play(cell, point)
            victim = cell.victim
            survived = point is None or f"{point.operation}" not in victim.trace or not await died(cell)
            calls = Counter(victim.trace) if survived else Counter[str]()
            await victim.kill()
            try:
                problems = await Judge(cell).judge()
            except AssertionError as error:
                problems = [str(error)]
            problems = [f"{point}: {problem}" for problem in problems]
            return calls, problems + ([cell.show()] if problems else [])
        finally:
            await cell.close()


async def died(cell: Cell) -> bool:
    """Whether the victim met its point; what it does last may still be under way."""
    try:
        async with asyncio.timeout(0.5):
            await cell.victim.dead.wait()
    except TimeoutError:
        return False
    return True
