"""Redis away, slow, cut off, restarted, full or refusing: each has an answer within a bound, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from stores.client import Client
from tests.processes.conftest import Callers, quick_settings
from tests.support.agents import Ledger
from tests.support.client import Answer, Reader, Speaker
from tests.support.engines import Engine, engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.lapse import assert_all_keys_lapse
from tests.support.proxy import FaultProxy, fault_proxy
from tests.support.wait import wait_for_state, wait_found, wait_until

# One command's time-out and a connection's, one repetition, and what a busy machine adds: far below any client's own.
ANSWERED_SECONDS = 12.0
STALL_SECONDS = 6.0


@dataclass
class Site:
    """Two workers whose way to the engine leads through the proxy."""

    engine: Engine
    proxy: FaultProxy
    fleet: Fleet
    ledger: Ledger
    heard: dict[int, int] = field(default_factory=dict)

    @property
    def direct(self) -> str:
        return self.engine.url

    def said(self, word: str) -> bool:
        """Whether some worker logged it during this test."""
        return any(word in node.log[self.heard.get(node.number, 0) :] for node in self.fleet.nodes)

    def listen(self) -> None:
        self.heard = {node.number: len(node.log) for node in self.fleet.nodes}


@pytest.fixture(scope="module")
def running_site() -> Iterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="ns-faults-") as path,
        engine("valkey", port=0) as server,
        fault_proxy(server.port or 0) as proxy,
    ):
        settings = quick_settings(server, redis_url=proxy.url, sse_keepalive_seconds=0.5, presumed_dead_seconds=5)
        with running_fleet(2, settings, Path(path)) as fleet:
            yield Site(server, proxy, fleet, Ledger(Path(path)))


@pytest.fixture
async def site(running_site: Site, http: httpx.AsyncClient) -> Site:
    """Answers, whatever the test before did to it."""
    running_site.proxy.come_back()
    running_site.fleet.start(2)
    for node in running_site.fleet.nodes:
        await wait_found(lambda node=node: probe(http, f"{node.url}/readyz", 200))  # type: ignore[misc]
    running_site.listen()
    return running_site


@contextlib.asynccontextmanager
async def admin(url: str) -> AsyncIterator[Client]:
    client = Client(url)
    try:
        yield client
    finally:
        await client.close()


async def probe(http: httpx.AsyncClient, url: str, status: int) -> bool:
    return (await http.get(url)).status_code == status


async def bounded(call: Awaitable[Answer]) -> Answer:
    """The answer, which must come within the bound."""
    async with asyncio.timeout(ANSWERED_SECONDS):
        return await call


def refused(answer: Answer, reason: str = "STORE_UNAVAILABLE") -> None:
    assert (answer.status, answer.fault.reason) == (503, reason)
    assert int(answer.headers["retry-after"]) >= 1


async def retried(caller: Speaker, text: str, message: str, context: str | None = None) -> Answer:
    """What a client does that follows the advice: the same message again, until it has its outcome."""
    deadline = time.monotonic() + 30
    while True:
        answer = await bounded(caller.send(text, message_id=message, context=context))
        if answer.status not in (409, 503):
            return answer
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.1)


async def test_while_redis_is_away_new_turns_are_refused_and_running_ones_go_on(
    site: Site, at: Callers, http: httpx.AsyncClient
) -> None:
    node, other = site.fleet.nodes
    prefix = uuid.uuid4().hex
    blocking = asyncio.create_task(at(node).send(f"steps 6 {prefix}", message_id=str(uuid.uuid4())))
    await wait_until(lambda: site.ledger.notes("start", text=f"steps 6 {prefix}"))
    task_id = site.ledger.notes("start", text=f"steps 6 {prefix}")[0]["task"]
    async with at(node).subscribe(task_id) as near, at(other).subscribe(task_id) as far:
        for reader in (near, far):
            assert (await reader.next()).kind == "task"

        site.proxy.go_away()
        began = time.monotonic()
        for speaker in (at(node), at(other)):
            refused(await bounded(speaker.send("echo", message_id=str(uuid.uuid4()))))
            refused(await bounded(speaker.get(task_id)))
            async with speaker.stream("echo") as stream:
                refused(await stream.answer())
        refusals = time.monotonic() - began
        for each in site.fleet.nodes:
            await wait_found(lambda each=each: probe(http, f"{each.url}/readyz", 503))  # type: ignore[misc]
            assert await probe(http, f"{each.url}/healthz", 200)
        # The agent goes on, and its streams are kept.
        for number in range(6):
            site.ledger.open(f"{prefix}-{number}")
        await wait_until(lambda: site.ledger.notes("end", task=task_id))
        for reader in (near, far):
            await two_keep_alives(reader)
        assert not blocking.done()
        site.proxy.come_back()

        for reader in (near, far):
            items = await reader.rest()
            assert [item.text for item in items if item.kind == "artifact"] == [f"{n} " for n in range(6)]
            assert items[-1].state == "completed"
    assert (await blocking).task.state == "completed"
    assert len(site.ledger.notes("start", task=task_id)) == 1
    for each in site.fleet.nodes:
        await wait_found(lambda each=each: probe(http, f"{each.url}/readyz", 200))  # type: ignore[misc]
    print(f"measured: six refusals in {refusals:.2f} s")


async def two_keep_alives(reader: Reader) -> None:
    for _ in range(2):
        frame = await reader.frame()
        assert frame is not None
        assert frame.comment is not None, frame


@pytest.mark.parametrize("how", ["stopped", "paused"])
async def test_r54_a_stall_makes_nobody_look_dead(site: Site, at: Callers, how: str) -> None:
    """Three times as long as a silent worker is given here."""
    gate = uuid.uuid4().hex
    held = [(await at(node).send(f"work {gate}", wait=False)).task for node in site.fleet.nodes]
    if how == "stopped":
        site.engine.pause()
    else:
        async with admin(site.direct) as client:
            await client.call("CLIENT", "PAUSE", int(STALL_SECONDS * 1000), "ALL")
    try:
        began = time.monotonic()
        answers = await asyncio.gather(*(bounded(at(node).send("echo")) for node in site.fleet.nodes))
        waited = time.monotonic() - began
        await asyncio.sleep(max(0.0, STALL_SECONDS - waited))  # the stall itself
    finally:
        if how == "stopped":
            site.engine.resume()
    for answer in answers:
        refused(answer)
    site.ledger.open(gate)
    for task in held:
        await wait_for_state(at.all(site.fleet), task.id, "completed")
        assert len(site.ledger.notes("start", task=task.id)) == 1
    assert not site.said("presumed_dead")
    assert not site.said("worker.reaped")
    print(f"measured: refused after {waited:.2f} s")


async def test_a_killed_redis_comes_back_with_everything_that_was_acknowledged(site: Site, at: Callers) -> None:
    node, other = site.fleet.nodes
    gate, context = uuid.uuid4().hex, uuid.uuid4().hex
    done = [(await at(node).send("echo", context=context)).task for _ in range(5)]
    asking = (await at(node).send("ask", context=context)).task
    held = (await at(node).send(f"work {gate}", wait=False)).task
    waiting = uuid.uuid4().hex
    first = (await at(node).send(f"hold {gate}", context=waiting, wait=False)).task
    queued = (await at(other).send("echo queued", context=waiting, wait=False)).task

    site.engine.kill()
    refused(await bounded(at(other).send("echo")))
    await asyncio.to_thread(site.engine.start)

    answer = await retried(at(other), "echo after", str(uuid.uuid4()), context)
    assert len(answer.task.data["heard"]) == 7
    for task in done:
        assert (await at(other).get(task.id)).task.raw == task.raw
    assert (await at(other).get(asking.id)).task.state == "input_required"
    site.ledger.open(gate)
    for task in (held, first, queued):
        await wait_for_state(at.all(site.fleet), task.id, "completed")
    assert not site.said("worker.reaped")


async def test_scripts_are_sent_again_by_themselves(site: Site, at: Callers) -> None:
    async with admin(site.direct) as client:
        await client.call("SCRIPT", "FLUSH")
        assert (await at(site.fleet.nodes[0]).send("stream 5")).task.state == "completed"
        await client.call("SCRIPT", "FLUSH")
        assert (await at(site.fleet.nodes[1]).list()).status == 200


async def test_a_full_redis_refuses_new_turns_and_finishes_the_running_ones(site: Site, at: Callers) -> None:
    node, other = site.fleet.nodes
    prefix = uuid.uuid4().hex
    running = asyncio.create_task(at(node).send(f"steps 4 {prefix}"))
    await wait_until(lambda: site.ledger.notes("start", text=f"steps 4 {prefix}"))
    task_id = site.ledger.notes("start", text=f"steps 4 {prefix}")[0]["task"]
    unwanted = (await at(node).send("work never", wait=False)).task
    async with admin(site.direct) as client, at(other).subscribe(task_id) as reader:
        await reader.next()
        await client.call("CONFIG", "SET", "maxmemory", "1mb")
        try:
            for speaker in (at(node), at(other)):
                refused(await bounded(speaker.send("echo")), "STORE_FULL")
            for number in range(4):
                site.ledger.open(f"{prefix}-{number}")
                assert (await reader.next()).text == f"{number} "
            assert (await reader.rest())[-1].state == "completed"
            assert (await running).task.state == "completed"
            assert (await at(other).cancel(unwanted.id)).task.state == "canceled"
            assert (await at(other).get(task_id)).task.artifacts == ["0 1 2 3 "]
        finally:
            await client.call("CONFIG", "SET", "maxmemory", "0")
    assert (await at(other).send("echo")).task.state == "completed"
    assert not site.said("presumed_dead")


async def test_a_worker_that_dies_while_redis_is_full_is_recovered(site: Site, at: Callers) -> None:
    """Admission is refused so that there is room for this."""
    node, other = site.fleet.nodes
    context = uuid.uuid4().hex
    running = (await at(node).send("work never", context=context, wait=False)).task
    queued = (await at(node).send("echo queued", context=context, wait=False)).task
    await wait_until(lambda: site.ledger.notes("start", task=running.id))
    async with admin(site.direct) as client:
        await client.call("CONFIG", "SET", "maxmemory", "1mb")
        try:
            refused(await bounded(at(other).send("echo")), "STORE_FULL")
            node.kill()
            failed = await wait_for_state([at(other)], running.id, "failed")
            assert failed.data["error_type"] == "worker_lost"
            await wait_for_state([at(other)], queued.id, "completed")
        finally:
            await client.call("CONFIG", "SET", "maxmemory", "0")


async def test_workers_with_many_turns_do_not_storm_a_redis_that_is_away(site: Site, at: Callers) -> None:
    gate = uuid.uuid4().hex
    held = [(await at(node).send(f"hold {gate}", wait=False)).task for node in site.fleet.nodes for _ in range(40)]
    await wait_until(lambda: len(site.ledger.notes("start", text=f"hold {gate}")) == len(held))
    site.proxy.go_away()
    site.ledger.open(gate)  # all of them want to end now
    await wait_until(lambda: len(site.ledger.notes("end", text=f"hold {gate}")) == len(held))
    before, began = site.proxy.knocks, time.monotonic()
    await asyncio.sleep(3.0)  # what is counted
    knocks, seconds = site.proxy.knocks - before, time.monotonic() - began
    site.proxy.come_back()
    for task in held:
        await wait_for_state(at.all(site.fleet), task.id, "completed")
    each = knocks / seconds / len(site.fleet.nodes)
    print(f"measured: {each:.0f} connections a second and worker, with {len(held)} turns that wait")
    assert knocks >= len(site.fleet.nodes), "they do try"
    # Its beats, its signals and its pipe: far from one for each turn.
    assert each < 20


ANSWERS = {
    "LOADING Redis is loading the dataset in memory": "STORE_UNAVAILABLE",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "STORE_UNAVAILABLE",
    "READONLY You can't write against a read only replica.": "STORE_UNAVAILABLE",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "STORE_UNAVAILABLE",
    "MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.": "STORE_UNAVAILABLE",
    "NOPERM User default has no permissions to run the 'evalsha' command": "STORE_UNAVAILABLE",
    "NOAUTH Authentication required.": "STORE_UNAVAILABLE",
    "ERR max number of clients reached": "STORE_UNAVAILABLE",
    "OOM command not allowed when used memory > 'maxmemory'.": "STORE_FULL",
}


@pytest.mark.parametrize("error", ANSWERS, ids=lambda error: error.split()[0].lower())
async def test_whatever_redis_refuses_with_has_an_answer(site: Site, at: Callers, error: str) -> None:
    node = site.fleet.nodes[0]
    gate = uuid.uuid4().hex
    held = (await at(node).send(f"work {gate}", wait=False)).task
    site.proxy.answer(error)
    site.ledger.open(gate)
    refused(await bounded(at(node).send("echo")), ANSWERS[error])
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        assert (await client.get(f"{node.url}/readyz")).status_code == 503
        assert (await client.get(f"{node.url}/healthz")).status_code == 200
    site.proxy.come_back()
    # What ran meanwhile is not thrown away for it.
    await wait_for_state([at(node)], held.id, "completed")


async def test_connections_that_are_open_on_one_side_only_are_given_up(site: Site, at: Callers) -> None:
    node, other = site.fleet.nodes
    gate = uuid.uuid4().hex
    task = (await at(node).send(f"work {gate}", wait=False)).task
    async with at(other).subscribe(task.id) as reader:
        await reader.next()
        site.proxy.half_open()
        # Its wake-ups are lost as well: the follower looks by itself.
        site.ledger.open(gate)
        assert (await reader.rest())[-1].state == "completed"
    assert (await retried(at(other), "echo", str(uuid.uuid4()))).task.state == "completed"


async def test_a_slow_redis_is_slow_and_nothing_else(site: Site, at: Callers) -> None:
    site.proxy.latency = 0.15
    began = time.monotonic()
    context = uuid.uuid4().hex
    for number in range(3):
        task = (await at(site.fleet.nodes[number % 2]).send(f"echo {number}", context=context)).task
        assert len(task.data["heard"]) == number + 1
    print(f"measured: {(time.monotonic() - began) / 3:.2f} s a turn at 0.3 s a round trip")
    assert not site.said("presumed_dead")


async def test_more_calls_than_connections_wait_their_turn_and_none_hangs(site: Site, at: Callers) -> None:
    node = site.fleet.nodes[0]
    task = (await at(node).send("echo")).task
    site.proxy.latency = 0.05
    answers = await asyncio.gather(*(bounded(at(node).get(task.id)) for _ in range(300)))
    assert {answer.status for answer in answers} <= {200, 503}
    assert sum(answer.status == 200 for answer in answers) >= 64
    site.proxy.latency = 0
    assert (await at(node).get(task.id)).task.state == "completed"


async def test_r06_r10_lost_replies_and_cut_connections_run_no_message_twice(site: Site, at: Callers) -> None:
    """Each message loses replies of its admission or its end, and its client retries as it is told to."""
    context = uuid.uuid4().hex
    messages = [str(uuid.uuid4()) for _ in range(24)]
    for number, message in enumerate(messages):
        if number % 3 == 2:
            site.proxy.cut()
        else:
            site.proxy.lose_replies(1 + number % 4)
        answer = await retried(at(site.fleet.nodes[number % 2]), f"echo {number}", message, context)
        assert answer.task.state == "completed", answer
    site.proxy.come_back()

    for message in messages:
        assert len(site.ledger.notes("end", message=message)) == 1
    heard = (await retried(at(site.fleet.nodes[0]), "echo end", str(uuid.uuid4()), context)).task.data["heard"]
    assert heard == [*(f"echo {number}" for number in range(24)), "echo end"]


async def test_nothing_the_faults_left_behind_stays_for_ever(site: Site) -> None:
    await assert_all_keys_lapse(site.direct)
    async with admin(site.direct) as client:
        namespace = site.fleet.settings["namespace"]
        live = await client.call("ZRANGE", f"{namespace}:{{live}}:contexts", 0, -1)
        assert len(live) <= 1, "only the context that waits for its caller is live"
