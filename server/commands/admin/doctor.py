"""`nonstick doctor`: is the store fit for what is promised, and is the fleet's state in order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from server.commands.admin.look import is_alive, place_of
from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, short, size, span, table
from stores import scripts
from stores.admin import ContextSight, WorkerSight
from stores.census import Census, EngineFacts, engine_facts

OLDEST = (6, 2)
SLOW_MS, TOO_SLOW_MS = 5.0, 50.0
FULL, NEARLY_FULL = 0.9, 0.75
UNKNOWN = "not known: this user may not ask"

Level = Literal["ok", "note", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `todo` is '' where nothing is to be done."""

    about: str
    level: Level
    found: str
    todo: str = ""


async def doctor(fleet: Opened, *, most: int, repair: bool) -> Shown:
    findings = list(judge_engine(await engine_facts(fleet.store.client, time.perf_counter)))
    census = await fleet.surveyor.census(most)
    findings += judge_keys(census)
    now = await fleet.admin.now_ms()
    workers = await fleet.admin.workers()
    findings += judge_workers(workers, now)
    live = await fleet.admin.contexts(await fleet.admin.live(most))
    findings += judge_live(await fleet.admin.count_live(), fleet.settings.max_contexts)
    lost = orphans(live, workers, {ref.text for ref in await fleet.admin.ready()})
    findings.append(await _orphans(fleet, lost, repair=repair))
    findings += await _turns(fleet, live, now)
    findings += await _callbacks(fleet)
    bad = sum(1 for it in findings if it.level == "bad")
    warn = sum(1 for it in findings if it.level == "warn")
    rows = [(it.level.upper() if it.level != "ok" else "ok", it.about, it.found) for it in findings]
    todos = [f"{it.about}: {it.todo}" for it in findings if it.todo]
    text = [f"{fleet.namespace} on {fleet.where}", "", table(("", "WHAT", "FOUND"), rows, empty=""), ""]
    text += ["Keys by class" + ("" if census.complete else f" (of about {census.walked} looked at)"), ""]
    text += [table(("KEYS", "CLASS"), [(n, kind) for kind, n in census.counts.most_common()], empty="There are none.")]
    text += ["", "What to do:", "", *todos] if todos else ["", "All is well."]
    data = {
        "healthy": not bad,
        "findings": [asdict(it) for it in findings],
        "keys": dict(census.counts),
        "keys_complete": census.complete,
    }
    if warn and not bad:
        text.append(f"\n{warn} to look at, nothing broken.")
    return Shown(data, "\n".join(text), 1 if bad else 0)


# --- the engine ----------------------------------------------------------------------------------------------


def judge_engine(engine: EngineFacts) -> Iterator[Finding]:
    info = engine.info
    yield _version(info)
    if info.get("role", "master") != "master":
        yield Finding("role", "bad", f"this is a {info['role']}", "Point redis_url at the primary, or at Sentinel.")
    yield _persistence(engine)
    policy = engine.settings.get("maxmemory-policy") or info.get("maxmemory_policy", UNKNOWN)
    if policy in ("noeviction", UNKNOWN):
        yield Finding("eviction", "ok" if policy == "noeviction" else "note", policy)
    else:
        todo = "Set maxmemory-policy noeviction: an evicted key is a broken promise, a full store a clear refusal."
        yield Finding("eviction", "bad", str(policy), todo)
    if int(info.get("evicted_keys", 0)):
        todo = "Set noeviction and more memory; what was evicted is lost."
        yield Finding("evicted", "bad", f"{info['evicted_keys']} keys since the start", todo)
    yield _memory(info)
    yield _latency(engine.latencies_ms)
    count = len(scripts.shared_names())
    known = count - max(engine.scripts_missing, 0)
    note = "; the others are sent when first used" if engine.scripts_missing else ""
    yield Finding("scripts", "ok", f"{known} of {count} that all workers share are loaded{note}")
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
        return Finding("engine", "bad", f"Redis {version}", "Upgrade to Redis 6.2 or later, or to Valkey.")
    return Finding("engine", "ok", f"Redis {version}, up for {_uptime(info)}")


def _uptime(info: dict[str, Any]) -> str:
    return span(float(info.get("uptime_in_seconds", 0)) * 1000)


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
    todo = "Set appendonly yes, so that a restart loses at most a second."
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


# --- the fleet -----------------------------------------------------------------------------------------------


def judge_keys(census: Census) -> Iterator[Finding]:
    if census.endless:
        todo = "Every key of ours has a TTL; these were written by something else. Remove them if nobody needs them."
        yield Finding("keys without a TTL", "bad", short(", ".join(census.endless[:3]), 100), todo)
    if census.counts["unknown"]:
        todo = "Another program, or another release, uses this namespace: give each its own."
        yield Finding("unknown keys", "warn", str(census.counts["unknown"]), todo)


def judge_workers(workers: Sequence[WorkerSight], now: int) -> Iterator[Finding]:
    alive = [it for it in workers if is_alive(it, now)]
    if not alive:
        yield Finding("workers", "bad", "none is alive", "Start one: what is stored waits for it.")
    else:
        yield Finding("workers", "ok", f"{len(alive)} alive, running {sum(len(it.turns) for it in alive)}")
    for it in workers:
        if not is_alive(it, now) and (it.turns or it.deliveries):
            what = f"silent; turns: {len(it.turns)}, deliveries: {it.deliveries}"
            todo = "The others take these over within seconds." if alive else "The first worker that starts takes over."
            yield Finding(f"worker {place_of(it)}", "warn", what, todo)


def judge_live(count: int, cap: int) -> Iterator[Finding]:
    if not cap:
        yield Finding("contexts", "ok", f"{count} live, no cap")
    elif count >= cap * FULL:
        todo = "Raise max_contexts, set context_idle_seconds, or release some: docs/runbooks/429-storm.md."
        yield Finding("contexts", "bad" if count >= cap else "warn", f"{count} live of {cap}", todo)
    else:
        yield Finding("contexts", "ok", f"{count} live of {cap}")


def orphans(contexts: Sequence[ContextSight], workers: Sequence[WorkerSight], ready: set[str]) -> list[ContextSight]:
    """Contexts with work that no hint leads to, so that nobody would look for it: what a failover can leave."""
    listed = {(it.id, ref.context, ref.task_id) for it in workers for ref in it.turns}

    def is_found(it: ContextSight) -> bool:
        if it.running:
            return (it.owner, it.ref, it.running) in listed
        return not it.queued or it.ref.text in ready

    return [it for it in contexts if not is_found(it)]


async def _orphans(fleet: Opened, lost: Sequence[ContextSight], *, repair: bool) -> Finding:
    # What was just changing hands looks the same for an instant.
    lost = [it for it in await fleet.admin.contexts([one.ref for one in lost]) if it in lost]
    if not lost:
        return Finding("hints", "ok", "every turn and queue can be found by the workers")
    names = short(", ".join(it.context_id for it in lost), 80)
    if not repair:
        todo = "`nonstick doctor --repair` puts the hints back; workers then recover the turns within seconds."
        return Finding("hints", "bad", f"{len(lost)} contexts have work that nobody would find: {names}", todo)
    words = [await fleet.admin.settle_context(it) for it in lost]
    return Finding("hints", "warn", f"{words.count('repaired')} of {len(lost)} were put back: {names}")


async def _turns(fleet: Opened, live: Sequence[ContextSight], now: int) -> list[Finding]:
    bound = fleet.settings.task_timeout_seconds * 1000
    if not bound:
        return []
    old = [it for it in live if it.running and now - it.started_ms > bound + 60_000]
    if not old:
        return []
    todo = "docs/runbooks/task-stuck-in-working.md; `nonstick tasks cancel --force TASK` ends one."
    return [Finding("turns", "warn", f"{len(old)} run for longer than task_timeout_seconds: {old[0].running}", todo)]


async def _callbacks(fleet: Opened) -> list[Finding]:
    letters, waiting = await fleet.admin.count_letters(), len(await fleet.admin.undelivered())
    if not letters and not waiting:
        return []
    found = f"{letters} dead letters, {waiting} tasks wait for a worker to serve them"
    todo = "`nonstick push list` says why; `nonstick push retry --all` sends them again." if letters else ""
    return [Finding("callbacks", "warn" if letters else "note", found, todo)]
