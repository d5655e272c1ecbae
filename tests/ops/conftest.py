"""Two real workers on one real Valkey, and the operator's commands against it."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.cli import main
from tests.support.agents import Ledger
from tests.support.client import Speaker, new_client
from tests.support.engines import Engine, engine
from tests.support.fleet import START_SECONDS, Fleet
from tests.support.fleet import fleet as running_fleet

WORKERS = 2


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="session")
def shared_fleet(real_engine: Engine) -> Iterator[Fleet]:
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


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    """Workers that answer; places of those a former test ended, or asked to end, are filled."""
    for node in shared_fleet.nodes:
        if node.alive and not node.ready:
            node.process.wait(START_SECONDS)
    shared_fleet.start(WORKERS)
    return shared_fleet


@pytest.fixture
def ledger(fleet: Fleet) -> Ledger:
    return Ledger(fleet.folder)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


@dataclass(frozen=True, slots=True)
class Done:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Nonstick = Callable[..., Any]


@pytest.fixture
def nonstick(real_engine: Engine, shared_fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> Nonstick:
    """Runs a command of the operator against the engine; await it. It is about the shared fleet, unless another
    namespace is given: the engine holds those of other tests, too."""

    async def run(*words: str, namespace: str = "", store: str = real_engine.url) -> Done:
        capfd.readouterr()
        line = [*words, "--redis", store, "--namespace", namespace or shared_fleet.settings["namespace"]]
        # In a thread: the command has a loop of its own.
        code = await asyncio.to_thread(main, line)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def speaker(http: httpx.AsyncClient, fleet: Fleet) -> Speaker:
    return Speaker(http, fleet.nodes[0].url, "1.0")


def unique(name: str) -> str:
    return f"{name}-{os.urandom(3).hex()}"
