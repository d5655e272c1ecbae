"""A fleet for tests: real single-worker server processes on one store, each addressable on purpose."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.agents import FOLDER_VARIABLE
from tests.support.node import PLAN_VARIABLE

START_SECONDS = 40.0
STOP_SECONDS = 10.0
ROOT = Path(__file__).resolve().parents[2]


class Node:
    """One worker process and its address."""

    def __init__(self, number: int, settings: dict[str, Any], agent: str, folder: Path) -> None:
        self.number = number
        self.log_path = folder / f"node-{number}.log"
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        plan = {"settings": settings, "agent": agent, "parent": os.getpid(), "descriptor": listener.fileno()}
        environment = {**os.environ, FOLDER_VARIABLE: str(folder), PLAN_VARIABLE: json.dumps(plan)}
        with listener, self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.node"],
                cwd=ROOT,
                env=environment,
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def terminate(self) -> None:
        """Asks it to drain and end, and does not wait for it."""
        self.process.terminate()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def gone(self) -> int:
        """Waits for the end of the process; its exit code."""
        return await asyncio.to_thread(self.process.wait, STOP_SECONDS)

    @property
    def ready(self) -> bool:
        """Whether it takes work: not while it starts, drains or ends."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.alive:
                raise AssertionError(f"node {self.number} ended with {self.process.returncode}:\n{self.log}")
            if self.ready:
                return
            time.sleep(0.02)
        raise AssertionError(f"node {self.number} was not ready within {START_SECONDS} s:\n{self.log}")

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


class Fleet:
    """Nodes that share a store, a namespace and a folder."""

    def __init__(self, settings: dict[str, Any], agent: str, folder: Path) -> None:
        self.settings = settings
        self.agent = agent
        self.folder = folder
        self.nodes: list[Node] = []
        self._started = 0

    def start(self, count: int) -> None:
        """Brings the fleet to `count` nodes that are ready; places of dead ones are filled."""
        self.nodes = [node for node in self.nodes if node.alive]
        new = [self._spawn() for _ in range(count - len(self.nodes))]
        for node in new:
            node.wait_ready()

    def _spawn(self) -> Node:
        node = Node(self._started, self.settings, self.agent, self.folder)
        self._started += 1
        self.nodes.append(node)
        return node

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def of_pid(self, pid: int) -> Node:
        return next(node for node in self.nodes if node.pid == pid)

    def others(self, *but: Node) -> list[Node]:
        return [node for node in self.nodes if node not in but]

    def log(self) -> str:
        """The nodes' logs, for the report of a failed test."""
        paths = sorted(self.folder.glob("node-*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-6000:]}" for path in paths)

    def stop(self) -> None:
        for node in self.nodes:
            if node.alive:
                node.kill()


@contextmanager
def fleet(count: int, settings: dict[str, Any], folder: Path, *, agent: str = "Puppet") -> Iterator[Fleet]:
    """A running fleet; every process it started is gone at the end."""
    running = Fleet(settings, agent, folder)
    try:
        running.start(count)
        yield running
    finally:
        running.stop()
