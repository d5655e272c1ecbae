"""`nonstick doctor`: is the store fit for what is promised, and is the fleet's state in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, short, table
from server.commands.admin.workers import is_alive, place_of
from stores.census import Census
from stores.fitness import FULL, Finding, judge_store
from stores.sights import ContextSight, WorkerSight


async def doctor(fleet: Opened, *, most: int, repair: bool) -> Shown:
    findings = await judge_store(fleet.store.client)
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
