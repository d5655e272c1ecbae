"""Callbacks are told at least once and in order, whatever happens to the worker that tells them."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stores import Store
from tests.processes.conftest import Callers, quick_settings
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Ledger
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_found, wait_until

WORKERS = 3


@pytest.fixture(scope="module")
def shared_fleet(real_engine: Engine) -> Iterator[Fleet]:
    settings = quick_settings(
        real_engine,
        push_notifications_enabled=True,
        push_allow_private_targets_for_tests_only=True,
        push_retry_seconds=0.1,
        drain_seconds=2,
    )
    with (
        tempfile.TemporaryDirectory(prefix="ns-push-") as folder,
        running_fleet(WORKERS, settings, Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def fleet(shared_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    shared_fleet.start(WORKERS)
    yield shared_fleet
    request.node.add_report_section("call", "fleet", shared_fleet.log())


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


async def served_by_nobody(store: Store) -> bool:
    return not any([await store.fleet.deliveries(worker) for worker in await store.fleet.workers()])


async def test_r42_what_was_sent_and_not_settled_is_sent_again_with_the_same_id(
    fleet: Fleet, at: Callers, hook: Hook, store: Store
) -> None:
    hook.open.clear()
    mine = Registrar(at(fleet.nodes[0]))
    task = (await mine.send("echo", mine.config(hook.url))).task
    await hook.until(1)
    fleet.nodes[0].kill()
    hook.open.set()
    first, second = await hook.until(2)
    assert (first.id, first.raw) == (second.id, second.raw)
    assert hook.states == ["completed", "completed"]
    assert second.task_id == task.id
    await wait_found(lambda: served_by_nobody(store))
    assert len(hook.told) == 2


async def test_a_killed_workers_turn_is_told_as_failed_by_another(
    fleet: Fleet, at: Callers, ledger: Ledger, hook: Hook
) -> None:
    mine = Registrar(at(fleet.nodes[0]))
    task = (await mine.send("hold never", mine.config(hook.url), wait=False)).task
    await wait_until(lambda: ledger.notes("start", task=task.id))
    fleet.nodes[0].kill()
    await hook.until_state("failed")
    assert hook.states == ["failed"]


async def test_a_retry_goes_on_from_another_worker(fleet: Fleet, at: Callers, hook: Hook, store: Store) -> None:
    hook.always = 503
    mine = Registrar(at(fleet.nodes[0]))
    await mine.send("echo", mine.config(hook.url))
    await hook.until(2)
    fleet.nodes[0].kill()
    hook.always = 200
    await wait_found(lambda: served_by_nobody(store))
    assert len({told.id for told in hook.told}) == 1
    assert hook.states[-1] == "completed"


async def test_r43_a_worker_that_was_presumed_dead_tells_nothing_more(
    fleet: Fleet, at: Callers, ledger: Ledger, hook: Hook, store: Store
) -> None:
    gate = uuid.uuid4().hex
    mine = Registrar(at(fleet.nodes[0]))
    # Its turn runs on node 1 and its callbacks are served by node 0, which registered them.
    task = (await at(fleet.nodes[1]).send(f"stream 6 {gate}", wait=False)).task
    await mine.create(task.id, mine.config(hook.url))
    fleet.nodes[0].pause()
    try:
        ledger.open(gate)
        await hook.until_state("completed")
    finally:
        fleet.nodes[0].resume()
    told = len(hook.told)
    await wait_found(lambda: served_by_nobody(store))
    assert [one.body["artifactUpdate"]["artifact"]["parts"][0]["text"] for one in hook.told if not one.state] == [
        "3 ",
        "4 ",
        "5 ",
    ]
    # It answers again, and has asked the store about its delivery by then.
    await mine.speaker.send("echo")
    assert len(hook.told) == told
    assert len({one.id for one in hook.told}) == told


async def test_a_draining_worker_hands_its_deliveries_on(fleet: Fleet, at: Callers, hook: Hook) -> None:
    hook.statuses = [503] * 4
    mine = Registrar(at(fleet.nodes[0]))
    await mine.stream("echo", mine.config(hook.url))
    await hook.until(1)
    fleet.nodes[0].terminate()
    await hook.until_state("completed")
    assert list(dict.fromkeys(hook.states)) == ["submitted", "working", "completed"]
    assert await fleet.nodes[0].gone() == 0


async def test_every_end_arrives_in_order_though_workers_die_and_receivers_fail(
    fleet: Fleet, at: Callers, hook: Hook, store: Store
) -> None:
    hook.statuses = [503, 200, 500] * 15
    tasks: list[str] = []

    async def one(number: int) -> None:
        mine = Registrar(at(fleet.nodes[number % WORKERS]))
        config = mine.config(hook.url, config_id=f"c{number}")
        tasks.append((await mine.send(f"stream {2 + number % 3}", config, wait=False)).task.id)

    await asyncio.gather(*(one(number) for number in range(30)))
    fleet.nodes[0].kill()

    def ended() -> bool:
        return {told.task_id for told in hook.told if told.state in ("completed", "failed")} == set(tasks)

    await wait_until(ended, seconds=40, what="the end of every task")
    await wait_found(lambda: served_by_nobody(store), seconds=40)
    assert await store.push.list_dead_letters() == ()
