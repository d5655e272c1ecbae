"""The peers and the bare limit, started with what they need."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.children import Child, free_port
from bench.environments import environment
from bench.postgres import postgres
from bench.subjects import Start, Subject, valkey

PROGRAMS = Path(__file__).parent / "peers"


@contextmanager
def _running(
    name: str,
    command: Sequence[str],
    *,
    stores: Sequence[Child] = (),
    dialect: str = "1.0",
    streams: bool = True,
    replicas: int = 1,
) -> Iterator[Subject]:
    with tempfile.TemporaryDirectory(prefix="nb-") as folder, ExitStack() as stack:
        ports, servers = [], []
        for number in range(replicas):
            port = free_port()
            child = Child([*command, str(port)], Path(folder, f"{number}.log"))
            stack.callback(child.kill)
            child.wait_port(port)
            child.wait_idle()
            ports.append(port)
            servers.append(child)
        yield Subject(name, ports, servers, list(stores), dialect=dialect, streams=streams)


@contextmanager
def sdk_memory() -> Iterator[Subject]:
    command = [environment("bench-sdk1"), str(PROGRAMS / "sdk1.py"), "memory"]
    with _running("a2a-sdk 1.x memory", command) as subject:
        yield subject


@contextmanager
def sdk_sqlite() -> Iterator[Subject]:
    python = environment("bench-sdk1")
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        command = [python, str(PROGRAMS / "sdk1.py"), f"sqlite+aiosqlite:///{folder}/tasks.db"]
        with _running("a2a-sdk 1.x cluster SQLite", command) as subject:
            yield subject


@contextmanager
def sdk_postgres(replicas: int = 1) -> Iterator[Subject]:
    python = environment("bench-sdk1")
    with postgres() as (engine, url):
        command = [python, str(PROGRAMS / "sdk1.py"), url]
        with _running("a2a-sdk 1.x cluster PostgreSQL", command, stores=[engine], replicas=replicas) as subject:
            yield subject


@contextmanager
def a2a_redis() -> Iterator[Subject]:
    python = environment("bench-a2a-redis")
    with valkey() as (engine, url):
        command = [python, str(PROGRAMS / "a2aredis.py"), url]
        # Not one of its streams came to an end when they were tried, so it is left out of those.
        with _running("a2a-redis, SDK 0.3", command, stores=[engine], dialect="0.3", streams=False) as subject:
            yield subject


@contextmanager
def bare() -> Iterator[Subject]:
    with valkey() as (engine, url):
        command = [sys.executable, str(PROGRAMS / "bare.py"), url.removeprefix("unix://")]
        with _running("bare limit", command, stores=[engine]) as subject:
            yield subject


PEERS: dict[str, Start] = {
    "a2a-sdk 1.x memory": sdk_memory,
    "a2a-sdk 1.x cluster SQLite": sdk_sqlite,
    "a2a-sdk 1.x cluster PostgreSQL": sdk_postgres,
    "a2a-redis, SDK 0.3": a2a_redis,
    "bare limit": bare,
}
