"""Is this engine fit to keep promises? The one list of what can be wrong with it, for all who ask: a worker's start,
`nonstick check` and `nonstick doctor`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal
from urllib.parse import urlsplit

from stores import scripts
from stores.client import POOL_SIZE, Client
from stores.errors import StoreError
from stores.units import size, span

OLDEST = (6, 2)
SLOW_MS, TOO_SLOW_MS = 5.0, 50.0
FULL, NEARLY_FULL = 0.9, 0.75
# A worker's pool, its pipelining connection and its pub/sub connection.
CONNECTIONS = POOL_SIZE + 2
# Task ids carry their worker's time and events Redis's: beyond this, people who compare them are led astray.
CLOCK_SECONDS = 5.0
UNKNOWN = "not known: this user may not ask"

Level = Literal["ok", "note", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `todo` is '' where nothing is to be done. `refuses`: it breaks a promise without a
    word, so no worker starts on it."""

    about: str
    level: Level
    found: str
    todo: str = ""
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.about}: {self.found}.{f' {self.todo}' if self.todo else ''}"


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine says of itself; `refused` are the questions this user may not ask. `apart_s` is how far its clock
    is from ours."""

    info: dict[str, Any]
    settings: dict[str, str]
    scripts_missing: int = 0
    latencies_ms: tuple[float, ...] = ()
    refused: tuple[str, ...] = ()
    apart_s: float = 0.0


async def engine_facts(client: Client, *, pings: int = 20) -> EngineFacts:
    """Asks the engine; what an ACL or a managed service refuses is left out."""
    refused = []
    info: dict[str, Any] = {}
    for section in ("server", "memory", "persistence", "replication", "clients", "stats"):
        try:
            info.update(await client.call("INFO", section))
        except StoreError:
            refused.append(f"INFO {section}")
    settings: dict[str, str] = {}
    for name in ("maxmemory-policy", "appendonly", "appendfsync", "save", "maxclients"):
        try:
            settings.update(await client.call("CONFIG", "GET", name))
        except StoreError:
            refused.append("CONFIG GET")
            break
    shas = [scripts.load(name).sha for name in scripts.shared_names()]
    try:
        missing = sum(1 for there in await client.call("SCRIPT", "EXISTS", *shas) if not there)
    except StoreError:
        missing = -1
        refused.append("SCRIPT EXISTS")
    latencies = []
    for _ in range(pings):
        began = time.perf_counter()
        await client.call("PING")
        latencies.append((time.perf_counter() - began) * 1000)
    return EngineFacts(info, settings, missing, tuple(latencies), tuple(refused), await _apart(client))


async def _apart(client: Client) -> float:
    began = time.time()
    seconds, micros = await client.call("TIME")
    theirs, ended = int(seconds) + int(micros) / 1e6, time.time()
    return max(began - theirs, theirs - ended, 0.0)


async def judge_store(client: Client, *, pings: int = 20, workers: int = 1) -> list[Finding]:
    """Everything about every primary there is; of a Cluster each finding says which."""
    nodes = await client.nodes()
    found: list[Finding] = []
    for node in nodes:
        facts = await engine_facts(node, pings=pings)
        of_node = list(judge_engine(facts, workers=workers))
        if client.apart:
            if not int(facts.info.get("connected_slaves", 1)):
                todo = "Give each primary of the Cluster a replica."
                of_node.append(Finding("replica", "warn", "none: with it gone, its conversations stand still", todo))
            place = urlsplit(node.url).netloc.rpartition("@")[2]
            of_node = [replace(finding, about=f"{finding.about} of {place}") for finding in of_node]
        found += of_node
    return found


def judge_engine(engine: EngineFacts, *, workers: int = 1) -> Iterator[Finding]:
    """Everything that was looked at. `workers`: how many are about to connect."""
    info = engine.info
    yield _version(info)
    if info.get("role", "master") != "master":
        todo = "Point redis_url at the primary, or at the Sentinels that know it."
        yield Finding("role", "bad", f"this is a {info['role']}, which takes no writes", todo)
    yield _persistence(engine)
    yield _eviction(engine)
    if int(info.get("evicted_keys", 0)):
        todo = "Set noeviction and more memory; what was evicted is lost."
        yield Finding("evicted", "bad", f"{info['evicted_keys']} keys since the start", todo)
    yield _memory(info)
    if engine.latencies_ms:
        yield _latency(engine.latencies_ms)
    yield from _connections(engine, workers)
    if engine.apart_s > CLOCK_SECONDS:
        todo = "Set both by NTP; promises hold all the same, times shown mix the two."
        yield Finding("clock", "warn", f"this machine's and the engine's are {engine.apart_s:.0f} s apart", todo)
    shared = len(scripts.shared_names())
    note = "; the others are sent when first used" if engine.scripts_missing else ""
    yield Finding("scripts", "ok", f"{shared - max(engine.scripts_missing, 0)} of {shared} are loaded{note}")
    if engine.refused:
        yield Finding("permissions", "note", f"this user may not ask: {', '.join(engine.refused)}")


def _version(info: dict[str, Any]) -> Finding:
    if "valkey_version" in info:
        return Finding("engine", "ok", f"Valkey {info['valkey_version']}, up for {_uptime(info)}")
    if "redis_version" not in info:
        return Finding("engine", "note", UNKNOWN)
    version = str(info["redis_version"])
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(parts) == 2 and parts < OLDEST:
        found, todo = f"Redis {version} lacks commands that scripts need", "Use Redis 6.2 or later, or Valkey."
        return Finding("engine", "bad", found, todo, refuses=True)
    return Finding("engine", "ok", f"Redis {version}, up for {_uptime(info)}")


def _uptime(info: dict[str, Any]) -> str:
    return span(float(info.get("uptime_in_seconds", 0)) * 1000)


def _eviction(engine: EngineFacts) -> Finding:
    policy = engine.settings.get("maxmemory-policy") or engine.info.get("maxmemory_policy", UNKNOWN)
    if policy in ("noeviction", UNKNOWN):
        return Finding("eviction", "ok" if policy == "noeviction" else "note", policy)
    todo = "Set maxmemory-policy noeviction: an evicted key is a broken promise, a full store a clear refusal."
    if not int(engine.info.get("maxmemory", 0)):
        # Without a limit nothing is ever evicted, until somebody sets one.
        return Finding("eviction", "warn", f"{policy}, though without maxmemory nothing is evicted yet", todo)
    found = f"{policy}: a full store would throw away conversations without a word"
    return Finding("eviction", "bad", found, todo, refuses=True)


def _persistence(engine: EngineFacts) -> Finding:
    info = engine.info
    if info.get("aof_last_write_status", "ok") != "ok" or info.get("rdb_last_bgsave_status", "ok") != "ok":
        return Finding("persistence", "bad", "the last write to disk failed", "See the engine's log; is its disk full?")
    if "aof_enabled" not in info:
        return Finding("persistence", "note", UNKNOWN)
    if int(info["aof_enabled"]):
        how = engine.settings.get("appendfsync", "")
        if how == "no":
            todo = "Set appendfsync everysec, so that a lost machine loses at most a second."
            return Finding("persistence", "note", "append-only, written when the system likes", todo)
        return Finding("persistence", "ok", f"append-only{f', fsync {how}' if how else ''}")
    todo = "Set appendonly yes; appendfsync everysec loses a second at most, always loses nothing."
    if engine.settings.get("save"):
        return Finding("persistence", "warn", "snapshots only: a crash loses what came after the last one", todo)
    if "save" not in engine.settings:
        return Finding("persistence", "warn", "no append-only file", todo)
    return Finding("persistence", "bad", "none: a restart loses every task and conversation", todo)


def _memory(info: dict[str, Any]) -> Finding:
    if "used_memory" not in info:
        return Finding("memory", "note", UNKNOWN)
    used, most = int(info["used_memory"]), int(info.get("maxmemory", 0))
    if not most:
        todo = "Set maxmemory below what the machine has, so that a full store answers 503 and is not killed."
        return Finding("memory", "note", f"{size(used)} used, no maxmemory", todo)
    share = used / most
    found = f"{size(used)} of {size(most)} ({share:.0%})"
    if share >= NEARLY_FULL:
        todo = "Give it more memory, or keep less: see `nonstick capacity` and docs/runbooks/redis-full.md."
        return Finding("memory", "bad" if share >= FULL else "warn", found, todo)
    return Finding("memory", "ok", found)


def _latency(latencies: Sequence[float]) -> Finding:
    middle, worst = median(latencies), max(latencies)
    found = f"{middle:.2f} ms a round trip (the worst of {len(latencies)}: {worst:.2f} ms)"
    if middle < SLOW_MS:
        return Finding("latency", "ok", found)
    todo = "A turn is two round trips: bring workers and store nearer, or see what keeps the engine busy (SLOWLOG GET)."
    return Finding("latency", "bad" if middle >= TOO_SLOW_MS else "warn", found, todo)


def _connections(engine: EngineFacts, workers: int) -> Iterator[Finding]:
    most = int(engine.info.get("maxclients") or engine.settings.get("maxclients") or 0)
    used, needed = int(engine.info.get("connected_clients", 0)), CONNECTIONS * workers
    if not most:
        return
    if most - used >= needed:
        yield Finding("connections", "ok", f"{used} of {most}")
        return
    whose = f"{workers} workers" if workers > 1 else "one worker"
    todo = "Raise maxclients, and the limit of open files with it."
    yield Finding("connections", "warn", f"{used} of {most}; {whose} may need {needed}", todo)
