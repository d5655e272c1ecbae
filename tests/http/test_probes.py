"""What operations people ask: alive, ready, and what is running here."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import httpx

from tests.http.conftest import Served, serving, settings_for
from tests.support.agents import Puppet
from tests.support.client import WIRES, Speaker
from tests.support.engines import engine
from tests.support.wait import wait_found


async def test_a_worker_is_alive_and_ready(http: httpx.AsyncClient, server: Served) -> None:
    for probe in ("/healthz", "/readyz"):
        assert (await http.get(server.url + probe)).status_code == 200


async def test_the_status_tells_what_runs_here(http: httpx.AsyncClient, server: Served) -> None:
    status = (await http.get(f"{server.url}/status")).json()
    assert status["agent"]["name"] == "Puppet"
    assert status["version"]
    assert status["store"]["engine"] == "valkey"
    assert status["namespace"] == server.settings.namespace
    assert status["worker"] in [worker["id"] for worker in status["workers"]]
    assert str(server.settings.redis_url) not in json.dumps(status)


async def test_without_its_store_a_worker_is_alive_and_not_ready_and_says_503(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    with engine() as own, serving(settings_for(own, heartbeat_seconds=0.2), Puppet(tmp_path)) as served:
        message = str(uuid.uuid4())
        speakers = [Speaker(http, served.url, wire) for wire in WIRES]
        first = (await speakers[0].send("echo", message_id=message)).task
        own.kill()

        assert (await http.get(f"{served.url}/healthz")).status_code == 200
        unready = await http.get(f"{served.url}/readyz")
        assert (unready.status_code, unready.headers["retry-after"]) == (503, "1")
        assert (await http.get(f"{served.url}/status")).status_code == 503
        for speaker in speakers:
            for answer in (await speaker.send("echo"), await speaker.get(first.id), await speaker.cancel(first.id)):
                assert (answer.status, answer.fault.reason) == (503, "STORE_UNAVAILABLE")
                assert int(answer.headers["retry-after"]) >= 1
            async with speaker.stream("echo") as reader:
                assert (await reader.answer()).status == 503

        own.start()

        async def ready() -> bool:
            return (await http.get(f"{served.url}/readyz")).status_code == 200

        await wait_found(ready)
        again = (await speakers[0].send("echo", message_id=message)).task
        assert again.raw == first.raw


async def test_a_turn_that_runs_while_the_store_is_away_ends_when_it_is_back(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    with engine() as own, serving(settings_for(own), Puppet(tmp_path)) as served:
        sending = asyncio.create_task(Speaker(http, served.url).send("hold gate"))
        await wait_found(lambda: begun(served))
        own.kill()
        served.ledger.open("gate")
        own.start()
        assert (await sending).task.state == "completed"


async def begun(served: Served) -> bool:
    return bool(served.ledger.notes("start"))
