"""The processes of a chaos run, all on loopback and all gone with it: one Valkey and N workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from server.chaos.node import PLAN_VARIABLE
from stores.embedded import server_binary
from stores.watchdog import die_with_parent

START_SECONDS = 60.0
STOP_SECONDS = 15.0


class NotStarted(Exception):
    """A process of the run did not come up; its log says why."""


class Engine:
    """A Valkey that can be killed; its port and its data stay the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.pids: list[int] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        # Append-only, and written before an answer is sent, so that killing the process loses nothing. With `everysec`
        # Redis answers first while a sync of a slow disk is under way, for up to two seconds.
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self._folder, "save": ""}
        options |= {"appendonly": "yes", "appendfsync": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (self._folder / "engine.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(server_binary()), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
            )
        self.pids.append(self._process.pid)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)


class Worker:
    """One worker process and its address, which its successor keeps."""

    def __init__(self, number: int, plan: dict[str, Any], folder: Path) -> None:
        self._plan = plan
        self._log = folder / f"worker-{number}.log"
        self.number = number
        self._port = _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.pids: list[int] = []

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
        plan = {**self._plan, "parent": os.getpid(), "descriptor": listener.fileno()}
        # Closed here at once: nobody may connect to a worker that is dead.
        with listener, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "server.chaos.node"],
                env={**os.environ, PLAN_VARIABLE: json.dumps(plan)},
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pids.append(self._process.pid)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.alive:
            self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    async def end(self) -> int | None:
        """Asks it to drain and end; its exit code, None when it did not."""
        if self._process is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self._process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class ChaosFleet:
    """Workers on one engine."""

    def __init__(self, count: int, settings: dict[str, Any], folder: Path, mutation: str) -> None:
        self.engine = Engine(folder)
        plan = {
            "settings": {**settings, "redis_url": self.engine.url},
            "folder": str(folder),
            "mutation": mutation,
        }
        self.workers = [Worker(number, plan, folder) for number in range(count)]
        self.urls = [worker.url for worker in self.workers]

    def start(self) -> None:
        self.engine.start()
        for worker in self.workers:
            worker.start()

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.engine.kill()

    def orphans(self) -> list[int]:
        """Processes of this run that are still there."""
        pids = [*self.engine.pids, *(pid for worker in self.workers for pid in worker.pids)]
        return [pid for pid in pids if _exists(pid)]

    def check_alive(self, began: float) -> None:
        for worker in self.workers:
            if not worker.alive:
                raise NotStarted(f"worker {worker.number} ended at its start:\n{worker.log[-2000:]}")
        if time.monotonic() - began > START_SECONDS:
            raise NotStarted(f"the fleet was not ready within {START_SECONDS:g} s:\n{self.workers[0].log[-2000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
