"""A replica as it is really run: a master with several workers behind one port, one page of numbers, JSON lines."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.ops.conftest import Nonstick
from tests.ops.test_metrics import parse, scrape, total
from tests.support.client import Speaker
from tests.support.engines import Engine, free_port
from tests.support.fleet import ROOT
from tests.support.wait import wait_found

WORKERS = 3
MESSAGES = 30


@contextmanager
def replica(folder: Path, redis_url: str, **settings: Any) -> Iterator[str]:
    """`nonstick run` with its log in the folder; its address."""
    lines = [f"  {name}: {json.dumps(value)}" for name, value in settings.items()]
    (folder / "endpoints.yml").write_text("\n".join(["a2a_server:", "  description: A replica", *lines, ""]))
    port = free_port()
    command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "run"]
    command += ["--agent", "examples.echo:Echo", "--workers", str(WORKERS), "--port", str(port)]
    command += ["--endpoints", str(folder / "endpoints.yml")]
    environment = {**os.environ, "REDIS_URL": redis_url, "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def test_several_workers_behind_one_port_show_one_page_and_one_line_a_turn(
    real_engine: Engine, http: httpx.AsyncClient, nonstick: Nonstick, tmp_path: Path
) -> None:
    namespace, metrics_port = f"o{os.urandom(3).hex()}", free_port()
    with replica(
        tmp_path,
        real_engine.url,
        namespace=namespace,
        log_format="json",
        metrics_port=metrics_port,
        metrics_interface="127.0.0.1",
    ) as url:

        async def all_alive() -> Any:
            listed = (await nonstick("workers", "list", "--json", namespace=namespace)).data
            return listed if len(listed) == WORKERS else None

        workers = await wait_found(all_alive, what="all workers")
        # A connection of its own for each, so that the system hands them to different workers.
        await asyncio.gather(*(_send(url, number) for number in range(MESSAGES)))

        pids = {str(worker["pid"]) for worker in workers}

        async def all_published() -> bool:
            # A worker that was handed no turn shows itself with its next round of publishing, not with the last turn.
            page = await scrape(http, f"http://127.0.0.1:{metrics_port}")
            seen = {found["worker"] for found, _ in page.get("nonstick_turns_running", [])}
            return seen == pids and total(page, "nonstick_turns_total") == MESSAGES

        await wait_found(all_published, what="every worker's numbers")
        # Whoever answers, nothing ever goes back: a rate over it is right.
        for _ in range(6):
            again = parse((await _get(f"http://127.0.0.1:{metrics_port}/metrics")).text)
            assert total(again, "nonstick_turns_total") == MESSAGES
        assert (await _get(f"{url}/metrics")).status_code == 404

    text = (tmp_path / "log").read_text()
    ended = [json.loads(line) for line in text.splitlines() if '"a2a_server.turn.ended"' in line]
    assert len(ended) == MESSAGES
    for line in ended:
        assert line["state"] == "completed"
        assert line["round_trips"] >= 2
        assert re.fullmatch(r"[0-9a-f-]{36}", line["task"])
    assert "private words" not in text
    assert not [name for name in os.listdir(tmp_path) if name.startswith("nonstick-metrics-")]


async def _send(url: str, number: int) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await Speaker(client, url, "1.0").send("private words", context=f"r{number}")
        assert answer.task.state == "completed"


async def _get(url: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.get(url)
