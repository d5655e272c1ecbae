"""Processes of a run: each with a log of its own, and gone with the run, whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.usage import cpu_ns, tree
from stores.watchdog import die_with_parent

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60.0
STOP_SECONDS = 10.0
IDLE_SECONDS = 0.2
IDLE_SHARE = 0.1


class NotStarted(Exception):
    """A process of the run did not come up; its log says why."""


class Child:
    """One process with those it starts itself."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path = ROOT,
        user: str | None = None,
        end: signal.Signals = signal.SIGKILL,
    ) -> None:
        self._log = log
        self._end = end
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=cwd,
                env=_clean_environment(),
                user=user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return tree(self.pid)

    def wait_port(self, port: int) -> None:
        """Until it takes connections."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise NotStarted(f"nobody listens on port {port} after {START_SECONDS:g} s:\n{self.said}")

    def wait_idle(self, processes: int = 1) -> None:
        """Until it has so many processes and what they did to start is done: that must not be measured."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.check_alive()
            before = cpu_ns(self.pids)
            time.sleep(IDLE_SECONDS)
            used = (cpu_ns(self.pids) - before) / 1e9
            if len(self.pids) >= processes and used < IDLE_SHARE * IDLE_SECONDS:
                return
        raise NotStarted(f"{self._process.args!r} is still busy after {START_SECONDS:g} s:\n{self.said}")

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            raise NotStarted(f"{self._process.args!r} ended with {self._process.returncode}:\n{self.said}")

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Nothing that it keeps is worth a graceful end."""
        if self._process.poll() is not None:
            return
        if self._end is not signal.SIGKILL:
            self._process.send_signal(self._end)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
                return
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait(STOP_SECONDS)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _clean_environment() -> dict[str, str]:
    """Ours without what would point a server at somebody's store."""
    return {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
