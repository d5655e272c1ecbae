"""Replicas for tests: `nonstick run` as an operator starts it, each with its own master and workers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.embedded.processes import children, is_running
from tests.support.agents import FOLDER_VARIABLE
from tests.support.engines import free_port

START_SECONDS = 60.0
STOP_SECONDS = 40.0
ROOT = Path(__file__).resolve().parents[2]


class Replica:
    """One server of several workers on a port that stays its own over restarts."""

    def __init__(self, number: int, settings: dict[str, Any], workers: int, folder: Path, agent: str) -> None:
        self.number = number
        self.workers = workers
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / f"replica-{number}.log"
        endpoints = folder / f"endpoints-{number}.yml"
        endpoints.write_text(yaml.safe_dump({"a2a_server": {"description": "a replica", **settings}}))
        self._command = [
            *(sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "run"),
            *("--agent", f"tests.support.agents:{agent}", "--workers", str(workers)),
            *("--port", str(self.port), "--endpoints", str(endpoints), "--redis", settings["redis_url"]),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def master(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, f"replica {self.number} was not started"
        return self.process

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pids(self) -> list[int]:
        """Its workers."""
        return children(self.master.pid)

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def start(self) -> None:
        environment = {**os.environ, FOLDER_VARIABLE: str(self.folder)}
        environment.pop("REDIS_URL", None)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_ready(self) -> None:
        """Until some worker of it takes work. A worker that is not there yet takes no connection."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.alive:
                raise AssertionError(f"replica {self.number} ended with {self.master.returncode}:\n{self.log}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"replica {self.number} was not ready within {START_SECONDS} s:\n{self.log}")

    def terminate(self) -> None:
        """What a deploy does; it is not waited for."""
        self.master.send_signal(signal.SIGTERM)

    def kill_worker(self, pid: int) -> None:
        """Ends one of its workers as a lack of memory would; the master puts another in its place."""
        assert pid in self.pids
        os.kill(pid, signal.SIGKILL)

    async def gone(self) -> int:
        """Waits for its end; the exit code."""
        return await asyncio.to_thread(self.master.wait, STOP_SECONDS)

    def kill(self) -> None:
        """What a power cut does: master and workers at once."""
        if not self.alive:
            return
        workers = self.pids
        for pid in (self.master.pid, *workers):
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.master.wait(STOP_SECONDS)


@contextmanager
def replicas(
    count: int, settings: dict[str, Any], folder: Path, *, workers: int = 2, agent: str = "Puppet"
) -> Iterator[list[Replica]]:
    """Running replicas; every process is gone at the end."""
    made = [Replica(number, settings, workers, folder, agent) for number in range(count)]
    try:
        for replica in made:
            replica.start()
        for replica in made:
            replica.wait_ready()
        yield made
    finally:
        for replica in made:
            replica.kill()
