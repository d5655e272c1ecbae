"""Fleets of real worker processes on one real Valkey, and no key without a TTL after any test."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.auth.caller import ANONYMOUS
from stores import Store, open_store
from stores.keys import ContextRef
from tests.support.agents import Ledger
from tests.support.client import Speaker, Wire, new_client
from tests.support.engines import Engine, engine
from tests.support.fleet import Fleet, Node
from tests.support.fleet import fleet as running_fleet
from tests.support.lapse import assert_all_keys_lapse

WORKERS = 4


def quick_settings(real_engine: Engine, **own: Any) -> dict[str, Any]:
    """Settings of a fleet whose deaths are noticed soon; the shortest that a busy machine with two cores bears."""
    return {
        "redis_url": real_engine.url,
        "namespace": f"p{uuid.uuid4().hex[:8]}",
        "heartbeat_seconds": 0.3,
        "presumed_dead_seconds": 2,
        "cancel_wait_seconds": 3,
        "drain_seconds": 8,
        "max_contexts": 0,
        **own,
    }


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="session")
def shared_fleet(real_engine: Engine) -> Iterator[Fleet]:
    with (
        tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder,
        running_fleet(WORKERS, quick_settings(real_engine), Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    """Four workers that answer. A test may kill some: the next test finds four again."""
    shared_fleet.start(WORKERS)
    return shared_fleet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its workers logged."""
    report = yield
    given = getattr(item, "funcargs", {})
    running = given.get("fleet") or getattr(given.get("site"), "fleet", None)
    if report.failed and isinstance(running, Fleet):
        report.sections.append(("fleet", running.log()))
    return report


@pytest.fixture
def ledger(fleet: Fleet) -> Ledger:
    return Ledger(fleet.folder)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


@pytest.fixture
async def store(real_engine: Engine, fleet: Fleet) -> AsyncIterator[Store]:
    """The fleet's own namespace, to look at from outside."""
    opened = open_store(real_engine.url, fleet.settings["namespace"])
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
async def bounded_memory(real_engine: Engine) -> AsyncIterator[None]:
    yield
    await assert_all_keys_lapse(real_engine.url)


class Callers:
    """Speakers for any node in any wire."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    def __call__(self, node: Node, wire: Wire = "1.0") -> Speaker:
        return Speaker(self._http, node.url, wire)

    def all(self, fleet: Fleet, wire: Wire = "1.0") -> list[Speaker]:
        return [self(node, wire) for node in fleet.nodes if node.alive]


@pytest.fixture
def at(http: httpx.AsyncClient) -> Callers:
    return Callers(http)


async def queue_is(store: Store, context_id: str, length: int) -> bool:
    """Whether so many messages wait in the context."""
    context = ContextRef.of(ANONYMOUS.key, context_id)
    return bool(await store.client.call("LLEN", store.keys.queue(context)) == length)
