"""One load on one subject: what came back, and what it cost."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from typing import Any

from bench.children import ROOT
from bench.subjects import Subject
from stores.watchdog import die_with_parent

# Beyond its own bound the load hangs, and nothing of it is worth waiting for.
PATIENCE_SECONDS = 300.0

Sample = dict[str, Any]


class BadRun(Exception):
    """Answers were wrong: no number of this run means anything."""


def measure(subject: Subject, plan: dict[str, Any]) -> Sample:
    """Runs the load; its result with the CPU that servers and stores used meanwhile, in seconds."""
    full = {"ports": subject.ports, "dialect": subject.dialect, "path": subject.path, **plan}
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.load", json.dumps(full)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        _line(load)
        before = subject.cpu_ns()
        assert load.stdin is not None
        load.stdin.write(b"go\n")
        load.stdin.flush()
        sample: Sample = _line(load)
        server, store = (after - earlier for after, earlier in zip(subject.cpu_ns(), before, strict=True))
        server_bytes, store_bytes = subject.memory_bytes()
        sample |= {"server_cpu_s": server / 1e9, "server_mb": server_bytes / 1e6}
        if subject.stores:
            sample |= {"store_cpu_s": store / 1e9, "store_mb": store_bytes / 1e6}
    finally:
        load.kill()
        load.communicate()
    if sample["wrong"]:
        raise BadRun(f"{subject.name}: {len(sample['wrong'])} wrong answers, the first: {sample['wrong'][0]}")
    return sample


def turns(subject: Subject, *, seconds: float, connections: int = 16, **more: Any) -> Sample:
    """Blocking turns, or other calls in a closed loop; the costs of one of them."""
    warm_s = min(1.0, seconds / 2)
    plan = {"kind": "turns", "talk": subject.talk, "seconds": seconds, "connections": connections, "warm_s": warm_s}
    sample = measure(subject, {**plan, **more})
    count = max(1, sample["count"])
    return {
        "turns_per_s": sample["count"] / sample["elapsed_s"],
        **costs(sample, count),
        "load_us": sample["load_cpu_s"] / count * 1e6,
        "p50_ms": sample["p50_ms"],
        "p99_ms": sample["p99_ms"],
        "server_mb": sample["server_mb"],
        "store_mb": sample.get("store_mb"),
        "load_share": sample["load_cpu_s"] / sample["elapsed_s"],
    }


def fill(subject: Subject, count: int, talk: str = "echo") -> None:
    """So many turns, for what they leave behind."""
    plan = {"kind": "turns", "talk": talk, "seconds": 240, "connections": 32, "warm_s": 0, "most": count}
    measure(subject, plan)


def streams(subject: Subject, *, count: int, text: str, seconds: float, **more: Any) -> Sample:
    """So many streams at once; the costs of one event."""
    plan = {"kind": "streams", "streams": count, "text": text, "seconds": seconds}
    sample = measure(subject, {**plan, **more})
    names = ("first_p50_ms", "first_p99_ms", "lag_p50_ms", "lag_p99_ms", "far_lag_p50_ms", "far_lag_p99_ms")
    return {
        "events_per_s": sample["count"] / sample["elapsed_s"],
        **costs(sample, max(1, sample["count"])),
        **{name: sample[name] for name in names},
        "load_us": sample["load_cpu_s"] / max(1, sample["count"]) * 1e6,
        "load_share": sample["load_cpu_s"] / sample["elapsed_s"],
    }


def costs(sample: Sample, count: float) -> Sample:
    """CPU of each of so many things."""
    store = sample.get("store_cpu_s")
    return {
        "server_us": sample["server_cpu_s"] / count * 1e6,
        "store_us": None if store is None else store / count * 1e6,
    }


def _line(load: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert load.stdout is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([load.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise BadRun(f"the load said nothing for {PATIENCE_SECONDS:g} s")
        piece = load.stdout.readline()
        if not piece:
            raise BadRun("the load ended without a result; its own words are above")
        line += piece
    said: dict[str, Any] = json.loads(line)
    return said
