"""What the tests of processes need: looking at them from outside, and waiting for what must come."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

# As in tests/support/wait.py: a machine that does other things as well must not fail a test.
WAIT_SECONDS = 20.0


def wait_until(happened: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet reaped by its parent does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.returncode == 0 and not shown.stdout.strip().startswith("Z")


def children(pid: int) -> list[int]:
    shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = (line.split() for line in shown.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]
