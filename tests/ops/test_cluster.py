"""The operator's commands on a fleet whose store is a Redis Cluster."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import open_store
from stores.preflight import preflight
from tests.ops import test_commands
from tests.ops.conftest import WORKERS, Nonstick, unique
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.clusters import Cluster, cluster
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_found


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="module")
def shared_fleet(real_engine: Cluster) -> Iterator[Fleet]:
    settings = {
        "redis_url": real_engine.url,
        "namespace": f"o{uuid.uuid4().hex[:8]}",
        "heartbeat_seconds": 0.2,
        "presumed_dead_seconds": 2,
        "cancel_wait_seconds": 2,
        "drain_seconds": 5,
        "max_contexts": 50,
    }
    with (
        tempfile.TemporaryDirectory(prefix="ns-ops-") as folder,
        running_fleet(WORKERS, settings, Path(folder)) as running,
    ):
        yield running


# Every test of the commands on one node, as it is.
globals().update({name: test for name, test in vars(test_commands).items() if name.startswith("test_")})


async def test_doctor_and_capacity_look_at_every_primary(
    real_engine: Cluster, speaker: Speaker, nonstick: Nonstick
) -> None:
    for number in range(12):
        await speaker.send("ask", context=f"doctor-{number}")
    done = await nonstick("doctor", "--json")
    assert done.code == 0, done.out
    about = {finding["about"] for finding in done.data["findings"]}
    for node in real_engine.primaries:
        assert {f"engine of 127.0.0.1:{node.port}", f"replica of 127.0.0.1:{node.port}"} <= about
    assert done.data["keys"]["context"] >= 12
    assert done.data["keys_complete"]
    assert "unknown" not in done.data["keys"]
    sized = await nonstick("capacity", "--json")
    assert (sized.code, sized.data["contexts"] >= 12) == (0, True)
    assert sized.data["used_memory"] > 3_000_000


async def test_a_repair_makes_lost_hints_again(
    real_engine: Cluster, fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    gate, context = unique("gate"), unique("repair")
    task = await test_commands.begin(speaker, ledger, f"hold {gate}", context)
    store = open_store(real_engine.url, fleet.settings["namespace"])
    try:
        for worker in await store.fleet.workers():
            await store.client.call("DEL", store.keys.turns(worker))
        await nonstick("doctor", "--repair")

        async def listed() -> bool:
            rosters = [
                await store.client.call("SMEMBERS", store.keys.turns(worker)) for worker in await store.fleet.workers()
            ]
            return any(task in entry for entries in rosters for entry in entries)

        await wait_found(listed)
        findings = await preflight(store)
        assert {finding.about.partition(" ")[0] for finding in findings} == {"replica"}
    finally:
        ledger.open(gate)
        await store.close()
