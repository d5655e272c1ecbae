"""Cancel sent to a worker that does not run the turn: how long until the agent has stopped."""

from __future__ import annotations

import time

from bench.client import Caller
from bench.load.talk import expect, said_in
from bench.results import Numbers, Results
from bench.run import Run
from bench.subjects import nonstick


def cancel(run: Run, results: Results) -> None:
    """From sending the cancel to another worker until the agent has stopped, and until the caller is told so."""
    with nonstick(replicas=2) as subject:
        home, away = Caller(subject), Caller(subject, 1)
        times = [_one(home, away) for _ in range(20 if run.quick else 100)]
        home.close()
        away.close()
    stopped, told = sorted(stop for stop, _ in times), sorted(answer for _, answer in times)
    numbers: Numbers = {
        "stop_p50_ms": stopped[len(stopped) // 2],
        "stop_p99_ms": stopped[-1 - len(stopped) // 100],
        "p50_ms": told[len(told) // 2],
        "p99_ms": told[-1 - len(told) // 100],
    }
    results.add("cancel", "nonstick", [numbers])


def _one(home: Caller, away: Caller) -> tuple[float, float]:
    task = home.begin("hold 300")["task"]["id"]
    time.sleep(0.02)  # so that the work is under way, as a real cancel finds it
    began = time.monotonic_ns()
    ended = away.call("CancelTask", id=task)
    told = time.monotonic_ns()
    expect(ended, "canceled")
    return (int(said_in(ended)) - began) / 1e6, (told - began) / 1e6
