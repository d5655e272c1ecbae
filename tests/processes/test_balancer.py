"""Three replicas of two workers behind plain round robin: any worker takes any request of any conversation."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.processes.conftest import quick_settings
from tests.support.agents import Ledger
from tests.support.balancer import ROOT, SHIPPED, configured, nginx
from tests.support.client import WIRES, Answer, Speaker, Wire
from tests.support.engines import Engine, engine
from tests.support.replicas import Replica, replicas
from tests.support.wait import wait_for_state, wait_found, wait_until


class Site:
    """The replicas, the balancer before them, and the folder their agents write to."""

    def __init__(self, servers: list[Replica], url: str, folder: Path) -> None:
        self.servers = servers
        self.url = url
        self.ledger = Ledger(folder)

    def replica_of(self, pid: int) -> int:
        return next(server.number for server in self.servers if pid in server.pids)


@contextmanager
def balanced(store: Engine, workers: int) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="ns-site-") as path:
        folder = Path(path)
        folder.chmod(0o755)
        with (
            replicas(3, quick_settings(store), folder, workers=workers) as servers,
            nginx([server.port for server in servers], folder / "nginx") as url,
        ):
            yield Site(servers, url, folder)


@pytest.fixture(scope="module")
def site(real_engine: Engine) -> Iterator[Site]:
    with balanced(real_engine, workers=2) as running:
        yield running


def test_compose_and_this_test_use_the_same_file() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    mounted = [volume.split(":") for volume in compose["services"]["balancer"]["volumes"]]
    assert [(ROOT / source).resolve() for source, target, *_ in mounted if target == "/etc/nginx/nginx.conf"] == [
        SHIPPED.resolve()
    ]
    # What the test changes is the two lines and nothing of how requests are passed on.
    shipped, used = SHIPPED.read_text().splitlines(), configured([1], 2, Path("/x")).splitlines()
    changed = [old.split()[0] for old, new in zip(shipped, used, strict=True) if old != new]
    assert changed == ["server", "listen"]
    for affinity in ("ip_hash", "sticky", "hash "):
        assert affinity not in SHIPPED.read_text()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_goes_on_whichever_replica_takes_its_next_message(
    site: Site, http: httpx.AsyncClient, wire: Wire
) -> None:
    caller, context = Speaker(http, site.url, wire), uuid.uuid4().hex
    said = [f"echo {number}" for number in range(9)]
    tasks = [(await caller.send(text, context=context)).task for text in said]

    assert [task.data["heard"] for task in tasks] == [said[: number + 1] for number in range(9)]
    assert len({site.replica_of(task.data["pid"]) for task in tasks}) == 3


async def test_a_storm_of_one_message_runs_the_agent_once(site: Site, http: httpx.AsyncClient) -> None:
    caller = Speaker(http, site.url)
    context, message, gate = (uuid.uuid4().hex for _ in range(3))
    sends = [asyncio.create_task(caller.send(f"hold {gate}", context=context, message_id=message)) for _ in range(100)]
    await wait_until(lambda: sum(send.done() for send in sends) == 99, seconds=40)
    site.ledger.open(gate)
    answers: list[Answer] = await asyncio.gather(*sends)

    assert sorted(answer.status for answer in answers) == [200, *[409] * 99]
    assert len(site.ledger.notes("start", message=message)) == 1
    again = [(await caller.send(f"hold {gate}", context=context, message_id=message)).task for _ in range(6)]
    assert {task.state for task in again} == {"completed"}
    assert len({task.id for task in again}) == 1
    assert len(site.ledger.notes("start", message=message)) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_events_arrive_one_by_one(site: Site, http: httpx.AsyncClient, wire: Wire) -> None:
    prefix = uuid.uuid4().hex
    async with Speaker(http, site.url, wire).stream(f"steps 5 {prefix}") as reader:
        assert (await reader.next()).kind == "task"
        assert (await reader.next()).state == "working"
        for number in range(5):
            # The next piece is not even made before this one was read.
            site.ledger.open(f"{prefix}-{number}")
            assert (await reader.next()).text == f"{number} "
        assert [item.state for item in await reader.rest()] == ["completed"]


async def test_a_stream_is_resumed_through_the_balancer(site: Site, http: httpx.AsyncClient) -> None:
    caller, prefix = Speaker(http, site.url), uuid.uuid4().hex
    pieces: list[str] = []
    async with caller.stream(f"steps 8 {prefix}") as reader:
        task = await reader.next()
        await reader.next()
        cursor = reader.last_id
    for number in range(8):
        site.ledger.open(f"{prefix}-{number}")
        async with caller.subscribe(task.id, last=cursor) as reader:
            item = await reader.next()
            pieces.append(item.text)
            cursor = reader.last_id
    async with caller.subscribe(task.id, last=cursor) as reader:
        assert (await reader.rest())[-1].state == "completed"
    assert pieces == [f"{number} " for number in range(8)]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cancel_stops_the_work_wherever_it_runs(site: Site, http: httpx.AsyncClient, wire: Wire) -> None:
    caller = Speaker(http, site.url, wire)
    for _ in range(3):
        task = (await caller.send("work never", wait=False)).task
        await wait_until(lambda task=task: site.ledger.notes("start", task=task.id))  # type: ignore[misc]
        assert (await caller.cancel(task.id)).task.state == "canceled"
        assert len(site.ledger.notes("stopped", task=task.id)) == 1


async def test_a_killed_worker_costs_its_own_turn_and_nothing_else(site: Site, http: httpx.AsyncClient) -> None:
    caller, context = Speaker(http, site.url), uuid.uuid4().hex
    task = (await caller.send("work never", context=context, wait=False)).task
    await wait_until(lambda: site.ledger.notes("start", task=task.id))
    pid = site.ledger.notes("start", task=task.id)[0]["pid"]
    server = site.servers[site.replica_of(pid)]
    server.kill_worker(pid)

    following = (await caller.send("echo next", context=context)).task

    assert following.data["heard"] == ["echo next"]
    failed = await wait_for_state([caller], task.id, "failed")
    assert failed.data["error_type"] == "worker_lost"
    await wait_until(lambda: len(server.pids) == 2, what="the worker is replaced")


@pytest.mark.parametrize("wire", WIRES)
async def test_without_a_balancer_requests_are_spread_by_the_client(
    site: Site, http: httpx.AsyncClient, wire: Wire
) -> None:
    callers = itertools.cycle([Speaker(http, server.url, wire) for server in site.servers])
    context, gate, message = (uuid.uuid4().hex for _ in range(3))
    said = [f"echo {number}" for number in range(6)]
    heard = [(await next(callers).send(text, context=context)).task.data["heard"] for text in said]
    assert heard == [said[: number + 1] for number in range(6)]

    held = (await next(callers).send(f"work {gate}", context=context, message_id=message, wait=False)).task
    assert (await next(callers).send(f"work {gate}", context=context, message_id=message)).status == 409
    async with next(callers).subscribe(held.id) as reader:
        assert (await reader.next()).id == held.id
        site.ledger.open(gate)
        assert (await reader.rest())[-1].state == "completed"
    again = (await next(callers).send(f"work {gate}", context=context, message_id=message)).task
    assert (again.id, again.state) == (held.id, "completed")
    assert len(site.ledger.notes("start", message=message)) == 1


async def test_a_store_that_was_away_leaves_no_trace_in_the_balancer(http: httpx.AsyncClient) -> None:
    """What all replicas refuse is refused in our words, and the first one that answers again is asked at once."""
    with engine("valkey") as store, balanced(store, workers=1) as site:
        caller = Speaker(http, site.url)
        store.kill()
        for _ in range(9):
            answer = await caller.send("echo", wait=False)
            assert (answer.status, answer.fault.reason) == (503, "STORE_UNAVAILABLE")
            assert answer.headers["retry-after"]
        store.start()
        for server in site.servers:
            await wait_found(lambda server=server: is_ready(http, server))  # type: ignore[misc]
        assert [(await caller.send("echo")).status for _ in range(9)] == [200] * 9


async def is_ready(http: httpx.AsyncClient, server: Replica) -> bool:
    return (await http.get(f"{server.url}/readyz")).status_code == 200
