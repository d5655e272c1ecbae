"""How the costs grow: with stored tasks, live contexts, queued turns and workers; and what is kept in memory."""

from __future__ import annotations

import json
import socket
import uuid

from bench import measure
from bench.client import Caller, used_memory
from bench.load.connection import post
from bench.load.talk import send
from bench.results import Numbers, Results
from bench.run import Run
from bench.subjects import Subject, nonstick
from bench.usage import cpu_ns

PAGE = 50
IDLE_SETTINGS = "  max_contexts: 0\n"


def tasks(run: Run, results: Results) -> None:
    """A plain turn, and the first page of 50, among many stored tasks; memory of the store for each of them."""
    with nonstick(settings=IDLE_SETTINGS) as subject:
        empty, stored = used_memory(subject.store_url), 0
        for wanted in (1_000, 5_000) if run.quick else (1_000, 10_000, 100_000):
            run.say(f"{wanted:,} tasks")
            measure.fill(subject, wanted - stored)
            bytes_each = (used_memory(subject.store_url) - empty) / wanted
            turn = measure.turns(subject, seconds=run.seconds / 2)
            listed = measure.turns(
                subject, seconds=run.seconds / 2, connections=4, talk="list", page=PAGE, total=wanted
            )
            stored = _count(subject)
            results.add("tasks", f"turn among {wanted:,} tasks", [{**turn, "bytes_each": bytes_each}])
            results.add("tasks", f"page of {PAGE} among {wanted:,} tasks", [listed])


def contexts(run: Run, results: Results) -> None:
    """A plain turn while so many contexts wait for their callers; memory of the store for each of those."""
    with nonstick(settings=IDLE_SETTINGS) as subject:
        live = 0
        for wanted in (0, 2_000) if run.quick else (0, 1_000, 10_000):
            run.say(f"{wanted:,} live contexts")
            each = None
            if wanted > live:
                before = used_memory(subject.store_url)
                measure.fill(subject, wanted - live, "ask")
                each = (used_memory(subject.store_url) - before) / (wanted - live)
                live = wanted
            turn = measure.turns(subject, seconds=run.seconds / 2)
            results.add("contexts", f"{wanted:,} live contexts", [{**turn, "bytes_each": each}])


def queued(run: Run, results: Results) -> None:
    """A turn of one context when so many callers share it: all but one of them wait in its queue."""
    with nonstick() as subject:
        for connections in (1, 4, 16):
            run.say(f"{connections} callers of one context")
            context = str(uuid.uuid4())
            turn = measure.turns(subject, seconds=run.seconds, connections=connections, context=context)
            results.add("queued", f"{connections - 1} waiting", [turn])


def workers(run: Run, results: Results) -> None:
    """Plain turns with so many workers behind one port, 32 connections; `busiest` is the share of the busiest one."""
    for count in (1, 2) if run.quick else (1, 2, 4):
        run.say(f"{count} workers")
        with nonstick(workers=count) as subject:
            before = _worker_cpu(subject)
            turn = measure.turns(subject, seconds=run.seconds, connections=32)
            used = [after - earlier for after, earlier in zip(_worker_cpu(subject), before, strict=True)]
        busiest = max(used) / sum(used)
        results.add("workers", f"{count} worker{'s' if count > 1 else ''}", [{**turn, "busiest": busiest}])


def idle(run: Run, results: Results) -> None:
    """Memory of the server and the store for each open stream whose agent is silent."""
    count = 200 if run.quick else 900
    with nonstick(settings=IDLE_SETTINGS) as subject:
        _open(subject, 20)  # what the first ones bring with them is not theirs
        server, _ = subject.memory_bytes()
        store = used_memory(subject.store_url)
        lines = _open(subject, count)
        after, _ = subject.memory_bytes()
        numbers: Numbers = {
            "bytes_each": (after - server) / count,
            "store_bytes_each": (used_memory(subject.store_url) - store) / count,
        }
        for line in lines:
            line.close()
    results.add("idle", f"{count} idle streams", [numbers])


def _open(subject: Subject, count: int) -> list[socket.socket]:
    lines = []
    for _ in range(count):
        line = socket.create_connection(("127.0.0.1", subject.ports[0]), 30)
        asked = send("1.0", "hold 600", stream=True)
        line.sendall(post("127.0.0.1", subject.ports[0], "/", json.dumps(asked).encode(), {"a2a-version": "1.0"}))
        lines.append(line)
    for line in lines:
        heard = b""
        while b"at it" not in heard:
            piece = line.recv(65536)
            if not piece:
                raise measure.BadRun(f"a stream ended: {heard[-500:]!r}")
            heard += piece
    return lines


def _count(subject: Subject) -> int:
    caller = Caller(subject)
    total = caller.result("ListTasks", pageSize=1)["totalSize"]
    caller.close()
    return int(total)


def _worker_cpu(subject: Subject) -> list[int]:
    """Of each worker process, without their master."""
    [master] = subject.servers
    return [cpu_ns([pid]) for pid in master.pids[1:]]
