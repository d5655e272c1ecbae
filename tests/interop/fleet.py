"""Two servers that share nothing but their store."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 15.0


@contextmanager
def running_server(agent: str, store_url: str, log: Path) -> Iterator[str]:
    """The address of a server that answers; it is gone afterwards."""
    command = [sys.executable, "-m", "tests.interop.node", agent, store_url]
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            line = process.stdout.readline() if readable else ""
            assert line, f"the server did not start:\n{log.read_text(errors='replace')}"
            url: str = json.loads(line)["url"]
            _await_ready(url, log)
            yield url
        finally:
            _stop(process)


def _await_ready(url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if httpx.get(f"{url}/readyz", timeout=1, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, f"{url} was never ready:\n{log.read_text(errors='replace')}"
        time.sleep(0.05)


def _stop(process: subprocess.Popen[str]) -> None:
    # Quick: nothing that a test left running is waited for.
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
