"""One worker with a meter between it and its Valkey, silent but for what a test asks of it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio as redis

from server.app import limits
from server.config.settings import Settings
from stores import open_store, scripts
from tests.costs.meter import Meter, metered
from tests.costs.recorded import Cost
from tests.support.agents import Ledger
from tests.support.client import Speaker, new_client
from tests.support.engines import Engine, engine
from tests.support.fleet import ROOT, fleet
from tests.support.wait import wait_found

# No beat while something is counted.
SILENT: dict[str, Any] = {"heartbeat_seconds": 60, "presumed_dead_seconds": 600, "max_contexts": 0}
PUSH: dict[str, Any] = {"push_notifications_enabled": True, "push_allow_private_targets_for_tests_only": True}
# What the scale itself sends to the engine.
OWN = ("info", "pubsub", "client", "command", "hello", "select")

# One turn in sixteen tidies up; that all of so many do is out of reach.
TIMES = 8

Work = Callable[[], Awaitable[Any]]
NOTHING: Mapping[str, int] = {}


class Scale:
    """Weighs what a worker does to its store."""

    def __init__(self, meter: Meter, valkey: Engine, url: str, folder: Path, http: httpx.AsyncClient) -> None:
        self._meter = meter
        self._valkey = valkey
        self.ledger = Ledger(folder)
        self.speaker = Speaker(http, url)

    async def weigh(self, work: Work, *, until: Mapping[str, int] = NOTHING) -> Cost:
        """The least that the work cost in so many times, after one that is not counted: scripts are loaded and
        connections open then. `until` are calls that come after the work's own end."""
        await self._once(work, until)
        found = [await self._once(work, until) for _ in range(TIMES)]
        least: Cost = {
            name: min(cost[name] for cost in found)
            for name in ("round_trips", "commands", "bytes_sent", "bytes_received")
        }
        names = sorted({name for cost in found for name in cost["calls"]})
        calls = {name: min(cost["calls"].get(name, 0) for cost in found) for name in names}
        return {"calls": {name: count for name, count in calls.items() if count}, **least}

    async def _once(self, work: Work, until: Mapping[str, int]) -> Cost:
        async with redis.Redis.from_url(self._valkey.url, decode_responses=True) as client:
            channels = await self._settled(client)
            self._meter.restart()
            before = await _commands(client)
            await work()
            await self._settled(client, channels, until)
            passed = self._meter.passed
            return {
                "calls": dict(passed.calls),
                "round_trips": passed.round_trips,
                "commands": await _commands(client) - before,
                "bytes_sent": passed.bytes_sent,
                "bytes_received": passed.bytes_received,
            }

    async def _settled(
        self, client: redis.Redis, channels: int | None = None, until: Mapping[str, int] = NOTHING
    ) -> int:
        """Waits until every call has its answer and nobody listens any more who did not before."""

        async def look() -> list[int] | None:
            calls = self._meter.passed.calls
            if not self._meter.quiet or any(calls[name] < count for name, count in until.items()):
                return None
            now = len(await client.pubsub_channels())
            return [now] if channels in (None, now) else None

        [found] = await wait_found(look, what="a worker without calls under way")
        return found


async def _commands(client: redis.Redis) -> int:
    """Every command the engine has executed, also those inside of scripts."""
    stats = await client.info("commandstats")
    return sum(
        line["calls"]
        for name, line in stats.items()
        if name.removeprefix("cmdstat_").partition("|")[0].lower() not in OWN
    )


@pytest.fixture(scope="session")
def valkey() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="session")
def start(valkey: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[Meter, str, Path]]]:
    """Starts a worker with settings of its own behind a meter of its own."""
    with ExitStack() as stack:

        def started(agent: str = "Puppet", **own: Any) -> tuple[Meter, str, Path]:
            folder = tmp_path_factory.mktemp("costs")
            settings = {"namespace": f"c{uuid.uuid4().hex[:8]}", **SILENT, **own}
            meter = stack.enter_context(metered(str(valkey.socket_path), script_names(valkey.url, settings)))
            settings["redis_url"] = meter.url
            running = stack.enter_context(fleet(1, settings, folder, agent=agent))
            return meter, running.urls[0], folder

        yield started


def script_names(url: str, settings: dict[str, Any]) -> dict[str, str]:
    """The operations by the hash of their text, which depends on the settings."""
    store = open_store(url, "unused", limits(Settings(**settings)))
    return {script.sha: script.name for script in (*store.turns.operations, *map(scripts.load, scripts.shared_names()))}


@pytest.fixture(scope="session")
def plain_worker(start: Callable[..., tuple[Meter, str, Path]]) -> tuple[Meter, str, Path]:
    return start()


@pytest.fixture(scope="session")
def push_worker(start: Callable[..., tuple[Meter, str, Path]]) -> tuple[Meter, str, Path]:
    return start(**PUSH)


@pytest.fixture(scope="session")
def bank_worker(start: Callable[..., tuple[Meter, str, Path]]) -> tuple[Meter, str, Path]:
    return start("", assistant=str(ROOT / "examples" / "bank"))


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


@pytest.fixture
def scale(plain_worker: tuple[Meter, str, Path], valkey: Engine, http: httpx.AsyncClient) -> Scale:
    meter, url, folder = plain_worker
    return Scale(meter, valkey, url, folder, http)


@pytest.fixture
def push_scale(push_worker: tuple[Meter, str, Path], valkey: Engine, http: httpx.AsyncClient) -> Scale:
    meter, url, folder = push_worker
    return Scale(meter, valkey, url, folder, http)


@pytest.fixture
def bank_scale(bank_worker: tuple[Meter, str, Path], valkey: Engine, http: httpx.AsyncClient) -> Scale:
    meter, url, folder = bank_worker
    return Scale(meter, valkey, url, folder, http)
