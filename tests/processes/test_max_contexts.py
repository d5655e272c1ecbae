"""The cap on live contexts holds across the fleet, exactly, and frees itself."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import Store
from tests.processes.conftest import WORKERS, Callers, quick_settings
from tests.support.agents import Ledger
from tests.support.client import Answer
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_found

CAP = 10


@pytest.fixture(scope="module")
def capped_fleet(real_engine: Engine) -> Iterator[Fleet]:
    with (
        tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder,
        running_fleet(WORKERS, quick_settings(real_engine, max_contexts=CAP), Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def fleet(capped_fleet: Fleet) -> Fleet:
    capped_fleet.start(WORKERS)
    return capped_fleet


async def live_contexts(store: Store) -> int:
    return int(await store.client.call("ZCARD", store.keys.live))


async def nobody_inside(store: Store) -> bool:
    return await live_contexts(store) == 0


async def test_five_hundred_new_contexts_at_once_are_let_in_up_to_the_cap(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    gate = uuid.uuid4().hex

    async def knock(number: int) -> Answer:
        return await at(fleet.nodes[number % WORKERS]).send(f"hold {gate}", wait=False)

    answers = await asyncio.gather(*(knock(number) for number in range(500)))

    inside = [answer for answer in answers if answer.status == 200]
    refused = [answer for answer in answers if answer.status == 429]
    assert (len(inside), len(refused)) == (CAP, 500 - CAP)
    assert {answer.fault.reason for answer in refused} == {"CONTEXT_LIMIT"}
    assert {answer.fault.code for answer in refused} == {-32053}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert await live_contexts(store) == CAP

    # Who is inside is never refused.
    follow_up = await at(fleet.nodes[0]).send("echo", wait=False, context=inside[0].task.context)
    assert follow_up.status == 200

    ledger.open(gate)
    await wait_found(lambda: nobody_inside(store))
    assert (await at(fleet.nodes[3]).send("echo")).task.state == "completed"


async def test_a_waiting_context_keeps_its_place_until_it_ends(fleet: Fleet, at: Callers, store: Store) -> None:
    waiting = [(await at(fleet.nodes[i % WORKERS]).send("ask")).task for i in range(CAP)]
    assert (await at(fleet.nodes[0]).send("echo")).status == 429

    answered = await at(fleet.nodes[1]).send("echo yes", context=waiting[0].context, task=waiting[0].id)
    assert answered.task.state == "completed"
    assert (await at(fleet.nodes[2]).send("echo")).status == 200
    for number, task in enumerate(waiting[1:]):
        assert (await at(fleet.nodes[number % WORKERS]).cancel(task.id)).task.state == "canceled"
    assert await live_contexts(store) == 0


async def test_the_cap_does_not_leak_when_a_worker_dies(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    victim, other = fleet.nodes[:2]
    gate = uuid.uuid4().hex
    for _ in range(CAP):
        assert (await at(victim).send(f"hold {gate}", wait=False)).status == 200
    assert (await at(other).send("echo")).status == 429

    victim.kill()

    await wait_found(lambda: nobody_inside(store))
    assert (await at(other).send("echo")).task.state == "completed"
