"""A deploy: SIGTERM of real replicas loses no turn, shows no error to short ones, and never `canceled`."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.processes.conftest import quick_settings
from tests.support.agents import Ledger
from tests.support.balancer import nginx
from tests.support.client import Item, Speaker
from tests.support.engines import Engine
from tests.support.replicas import Replica, replicas
from tests.support.wait import wait_found, wait_until


@contextmanager
def site(real_engine: Engine, count: int, **own: Any) -> Iterator[tuple[list[Replica], Ledger]]:
    with tempfile.TemporaryDirectory(prefix="ns-site-") as path:
        folder = Path(path)
        folder.chmod(0o755)
        with replicas(count, quick_settings(real_engine, **own), folder) as servers:
            try:
                yield servers, Ledger(folder)
            except BaseException:
                balancer = folder / "nginx" / "nginx.log"
                logs = [server.log for server in servers] + ([balancer.read_text()] if balancer.exists() else [])
                print(*logs)  # shown with the failure
                raise


async def ready(http: httpx.AsyncClient, server: Replica) -> int:
    """On a connection of its own: a kept one always asks the same worker."""
    return (await http.get(f"{server.url}/readyz", headers={"Connection": "close"})).status_code


async def test_r50_r51_a_replica_that_is_asked_to_end_loses_nothing(
    real_engine: Engine, http: httpx.AsyncClient
) -> None:
    with site(real_engine, 2, drain_seconds=15) as ((leaver, other), ledger):
        here, there = Speaker(http, leaver.url), Speaker(http, other.url)
        context, gate, prefix = (uuid.uuid4().hex for _ in range(3))
        leaving = set(leaver.pids)
        running = asyncio.create_task(here.send(f"hold {gate}", context=context))
        await wait_until(lambda: ledger.notes("start", context=context))
        assert ledger.notes("start", context=context)[0]["pid"] in leaving
        queued = asyncio.create_task(here.send("echo queued", context=context))
        far = (await there.send(f"steps 6 {prefix}", wait=False)).task
        async with here.subscribe(far.id) as reader:
            await reader.next()
            for number in range(3):
                ledger.open(f"{prefix}-{number}")
                assert (await reader.next()).text == f"{number} "

            leaver.terminate()
            await wait_found(lambda: draining(http, leaver), what="readiness goes off")
            # A balancer that has not noticed yet still gets its answers.
            late = [(await here.send("echo late")).task for _ in range(4)]
            assert {task.state for task in late} == {"completed"}
            assert {task.data["pid"] for task in late} <= leaving
            assert not running.done()
            assert not queued.done()
            ledger.open(gate)

            assert (await running).task.state == "completed"
            handed = (await queued).task
            assert (handed.state, handed.data["heard"]) == ("completed", [f"hold {gate}", "echo queued"])
            assert handed.data["pid"] in other.pids

            while await reader.frame() is not None:
                pass
            assert "Last-Event-ID" in (reader.seen[-1].comment or "")
            cursor = reader.last_id
        assert await leaver.gone() == 0
        for number in range(3, 6):
            ledger.open(f"{prefix}-{number}")
        async with there.subscribe(far.id, last=cursor) as resumed:
            rest = await resumed.rest()
        assert [item.text for item in rest if item.kind == "artifact"] == ["3 ", "4 ", "5 "]
        assert rest[-1].state == "completed"


async def draining(http: httpx.AsyncClient, server: Replica) -> bool:
    """Both workers of it: several connections reach both."""
    answers = await asyncio.gather(*(ready(http, server) for _ in range(8)))
    return set(answers) == {503}


async def test_a_turn_longer_than_the_drain_is_answered_honestly_and_never_as_canceled(
    real_engine: Engine, http: httpx.AsyncClient
) -> None:
    with site(real_engine, 2, drain_seconds=1) as ((leaver, other), ledger):
        context, message = uuid.uuid4().hex, str(uuid.uuid4())
        here, there = Speaker(http, leaver.url), Speaker(http, other.url)
        running = asyncio.create_task(here.send("work never", context=context, message_id=message))
        await wait_until(lambda: ledger.notes("start", context=context))
        queued = asyncio.create_task(here.send("echo queued", context=context))
        task_id = ledger.notes("start", context=context)[0]["task"]

        async with there.subscribe(task_id) as watching:
            await watching.next()
            leaver.terminate()
            for waiting in (running, queued):
                answer = await waiting
                assert (answer.status, answer.fault.reason) == (503, "DRAINING")
                assert int(answer.headers["retry-after"]) >= 1
            assert running.result().fault.details["taskId"] == task_id
            assert await leaver.gone() == 0
            seen = await watching.rest()

        assert [item.state for item in seen if item.kind == "status"][-1] == "failed"
        assert seen[-1].data["error_type"] == "worker_lost"
        retried = (await there.send("work never", context=context, message_id=message)).task
        assert (retried.id, retried.state) == (task_id, "failed")
        assert (await there.send("echo after", context=context)).task.data["heard"] == ["echo queued", "echo after"]


class Load:
    """Clients that never retry: what they see is what the deploy shows."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.caller = Speaker(http, url)
        self.stop = asyncio.Event()
        self.turns = 0
        self.slowest = 0.0

    async def talk(self, context: str) -> list[Item]:
        tasks = []
        while not self.stop.is_set():
            began = time.monotonic()
            tasks.append((await self.caller.send("nap 30", context=context)).task)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.turns += 1
        return tasks

    async def watch(self) -> int:
        """Streams, resumed when their worker goes, until the end is seen."""
        resumed = 0
        while not self.stop.is_set():
            pieces: list[str] = []
            async with self.caller.stream("stream 20") as reader:
                task = await reader.next()
                ended = await self._read(reader, pieces)
                cursor = reader.last_id
            while not ended:
                resumed += 1
                async with self.caller.subscribe(task.id, last=cursor) as reader:
                    ended = await self._read(reader, pieces)
                    cursor = reader.last_id
            assert pieces == [f"{number} " for number in range(20)]
        return resumed

    async def _read(self, reader: Any, pieces: list[str]) -> bool:
        while (frame := await reader.frame()) is not None:
            if frame.comment is not None:
                continue
            if frame.item.kind == "artifact":
                pieces.append(frame.item.text)
            elif frame.item.state == "completed":
                return True
            else:
                assert frame.item.state in ("submitted", "working"), frame
        return False


async def test_a_rolling_restart_under_load_shows_no_error(real_engine: Engine, http: httpx.AsyncClient) -> None:
    with (
        site(real_engine, 3, drain_seconds=4) as (servers, ledger),
        nginx([server.port for server in servers], ledger.folder / "nginx") as url,
    ):
        load = Load(http, url)
        # Two clients share each context, so that turns wait for others when their worker goes.
        contexts = [uuid.uuid4().hex for _ in range(3)]
        talks = {asyncio.create_task(load.talk(context)): context for context in contexts * 2}
        watches = [asyncio.create_task(load.watch()) for _ in range(2)]
        try:
            for server in servers:
                before = load.turns
                server.terminate()
                assert await server.gone() == 0, server.log
                server.start()
                await asyncio.to_thread(server.wait_ready)
                assert load.turns > before
                for client in (*talks, *watches):
                    assert not client.done(), f"a client gave up: {client.exception()!r}"
        finally:
            load.stop.set()
            results = await asyncio.gather(*talks, *watches, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        assert not failures
        for context in contexts:
            tasks = [task for talk, mine in talks.items() if mine == context for task in talk.result()]
            assert {task.state for task in tasks} == {"completed"}
            # No turn was lost, doubled or swapped: each one heard all before it and itself.
            assert sorted(len(task.data["heard"]) for task in tasks) == list(range(1, len(tasks) + 1))
        assert not ledger.notes("stopped")
