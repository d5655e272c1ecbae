"""What processes have used so far: CPU time to the nanosecond, and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

# Linux numbers the CPU clock of any process by its pid (see clock_getcpuclockid(3)): unlike /proc/PID/stat it is not
# rounded to ticks of 10 ms, and unlike /proc/PID/schedstat it knows threads, also those that have ended.
_PROCESS_CLOCK = 2


# What children that have ended used is known to ticks only.
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def cpu_ns(pids: Iterable[int]) -> int:
    """Of these processes and of all their children that have ended."""
    return sum(_own_cpu_ns(pid) for pid in pids)


def memory_bytes(pids: Iterable[int]) -> int:
    """The proportional set size: a page that forked processes share counts once, and not once for each."""
    return sum(_memory(pid) for pid in pids)


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    found = [root]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue  # the thread has ended
    return found


def _own_cpu_ns(pid: int) -> int:
    try:
        ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
        own = time.clock_gettime_ns(((~pid) << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0  # it has just ended: its parent's account has it
    return own + sum(map(int, ended)) * _TICK_NS


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
