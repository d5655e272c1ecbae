"""The operator's commands when nothing but the store is left."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
import pytest

from server.cli import main
from stores import open_store
from stores.embedded import EmbeddedEngine
from stores.fleet import SCHEMA
from tests.ops.conftest import Nonstick
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.engines import Engine, engine
from tests.support.fleet import ROOT
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_until


async def test_what_a_dead_fleet_left_can_be_seen_and_ended(
    real_engine: Engine, http: httpx.AsyncClient, nonstick: Nonstick, tmp_path: Path
) -> None:
    name = f"o{uuid.uuid4().hex[:8]}"
    settings = {"redis_url": real_engine.url, "namespace": name}
    with running_fleet(1, settings, tmp_path) as fleet:
        speaker = Speaker(http, fleet.nodes[0].url, "1.0")
        held = (await speaker.send("hold never", context="held", wait=False)).task.id
        failing = (await speaker.send("hold never", context="failing", wait=False)).task.id
        behind = (await speaker.send("echo", context="held", wait=False)).task.id
        idle, other = [(await speaker.send("ask", context=it)).task.id for it in ("idle", "other")]
        await wait_until(lambda: len(Ledger(tmp_path).notes("start")) == 4, what="the turns' start")
        fleet.nodes[0].kill()

        listed = await nonstick("ps", "--json", namespace=name)
        assert {it["task"]: it["queued"] for it in listed.data} == {held: 1, failing: 0}
        # Nobody answers a cancel; force closes.
        asked = await nonstick("tasks", "cancel", held, "--wait", "0", namespace=name)
        assert asked.code == 1
        assert "was asked to stop, and has not yet" in asked.out
        assert (await nonstick("tasks", "cancel", behind, namespace=name)).out.strip() == f"{behind} is canceled."
        forced = await nonstick("tasks", "cancel", held, "--force", "--wait", "0", namespace=name)
        assert forced.out.strip() == f"{held} is canceled."
        assert (await nonstick("tasks", "fail", failing, namespace=name)).out.strip() == f"{failing} is failed."
        assert (await nonstick("tasks", "fail", idle, namespace=name)).out.strip() == f"{idle} is failed."
        ended = await nonstick("tasks", "cancel", other, "--force", "--wait", "0.2", namespace=name)
        assert ended.out.strip() == f"{other} is canceled."

        assert (await nonstick("ps", "--json", namespace=name)).data == []
        live = await nonstick("contexts", "list", "--json", namespace=name)
        assert live.data == {"live": 0, "contexts": []}
        # None of the commands stays behind as a member of the fleet.
        workers = await nonstick("workers", "list", "--json", namespace=name)
        assert [it["pid"] for it in workers.data] == [fleet.nodes[0].pid]


def test_an_embedded_store_that_nobody_runs_is_started_for_the_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def beat(url: str) -> None:
        store = open_store(url, "left")
        await store.fleet.beat_worker("one", '{"host": "here", "pid": 7}')
        await store.close()

    with EmbeddedEngine(tmp_path / "data") as url:
        asyncio.run(beat(url))

    code = main(["workers", "list", "--embedded", "--data-dir", str(tmp_path / "data")])

    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert "here/7" in shown.out
    assert "No server runs over" in shown.err


def test_a_folder_without_data_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", "--embedded", "--data-dir", str(tmp_path / "none")]) == 2
    assert "store_unreachable" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


async def test_check_says_what_is_wrong_with_the_store_before_anybody_starts() -> None:
    with engine("valkey", port=0, args=("--appendonly", "no", "--maxclients", "100")) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        words = ("check", "--agent", "examples.echo:Echo", "--redis", url)
        warned = await asyncio.to_thread(_nonstick, *words)
        assert warned.returncode == 0, warned.stderr
        assert "the store's persistence: none" in warned.stdout
        assert "the store's connections: " in warned.stdout

        store = open_store(url, "echo")
        await store.client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        await store.client.call("CONFIG", "SET", "maxmemory", "100mb")
        await store.fleet.take_namespace(SCHEMA + 1)
        refused = await asyncio.to_thread(_nonstick, *words)
        assert refused.returncode == 2
        assert "There are 2 problems" in refused.stderr
        assert "validation.a2a_server.store_unfit" in refused.stderr
        assert "noeviction" in refused.stderr
        assert "newer release" in refused.stderr
        started = await asyncio.to_thread(_nonstick, "run", *words[1:], "--port", "0")
        assert (started.returncode, started.stdout) == (2, "")
        assert started.stderr == refused.stderr
        # An older release's commands keep their hands off, too.
        ps = await asyncio.to_thread(_nonstick, "ps", "--namespace", "echo", "--redis", url)
        assert (ps.returncode, "Use that release's own commands" in ps.stderr) == (2, True)
        await store.close()
    away = await asyncio.to_thread(_nonstick, *words)
    assert (away.returncode, "can't be asked from here" in away.stdout) == (0, True)


def _nonstick(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


async def test_a_watch_outlives_a_restart_of_the_store(tmp_path: Path) -> None:
    shown, said = tmp_path / "shown", tmp_path / "said"
    with engine("valkey", port=0) as server, shown.open("wb") as out, said.open("wb") as err:
        words = ["ps", "--watch", "0.1", "--namespace", "n", "--redis", f"redis://127.0.0.1:{server.port}/0"]
        command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", *words]
        watching = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=err, cwd=ROOT)
        try:
            await wait_until(lambda: "Nothing runs" in shown.read_text(), what="the first look")
            await asyncio.to_thread(server.kill)
            await wait_until(lambda: "did not answer" in said.read_text(), what="the fault")
            await asyncio.to_thread(server.start)
            seen = shown.read_text().count("Nothing runs")
            await wait_until(lambda: shown.read_text().count("Nothing runs") > seen, what="a look after the restart")
        finally:
            watching.terminate()
            await asyncio.wait_for(watching.wait(), 10)
