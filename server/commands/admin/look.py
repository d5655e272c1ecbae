"""The commands that only look: ps, and the lists and single views of tasks, contexts, workers and callbacks."""

from __future__ import annotations

import json
from typing import Any

from server.auth.caller import ANONYMOUS
from server.commands.admin.finding import NotThere, caller_of_task, context_of
from server.commands.admin.flags import KEYS_WALKED
from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, facts, short, since, stamp, table
from server.turns.record import task_of
from stores.admin import ContextSight, TurnSight, WorkerSight
from stores.keys import ContextRef
from stores.records import DeadLetter, TaskView
from stores.units import size, span

# A worker that has not beaten for so long is dead or cut off; the others notice sooner.
QUIET_MS = 10_000


async def ps(fleet: Opened) -> Shown:
    now = await fleet.admin.now_ms()
    workers = await fleet.admin.workers()
    turns = await fleet.admin.turns(workers)
    places = {worker.id: place_of(worker) for worker in workers}
    rows = [
        (
            turn.context.running or "(waits for a worker)",
            short(turn.context.context_id),
            places.get(turn.worker, turn.worker) or "-",
            since(turn.context.started_ms, now),
            since(turn.progress_ms, now),
            turn.attempt or "-",
            turn.context.queued,
            "canceling" if turn.context.canceling else turn.state,
        )
        for turn in turns
    ]
    alive = sum(1 for worker in workers if is_alive(worker, now))
    head = ("TASK", "CONTEXT", "WORKER", "RUNS FOR", "LAST PROGRESS", "ATTEMPT", "QUEUED", "STATE")
    summary = f"\n{len(turns)} running, {sum(turn.context.queued for turn in turns)} queued, {alive} workers alive"
    return Shown([turn_data(turn, now) for turn in turns], table(head, rows, empty="Nothing runs.") + "\n" + summary)


def turn_data(turn: TurnSight, now: int) -> dict[str, Any]:
    context = turn.context
    return {
        "task": context.running or None,
        "context": context.context_id,
        "caller": context.ref.caller,
        "worker": turn.worker or None,
        "state": turn.state,
        "attempt": turn.attempt,
        "fence": context.fence,
        "running_ms": now - context.started_ms if context.started_ms else None,
        "progress_ms_ago": now - turn.progress_ms if turn.progress_ms else None,
        "queued": context.queued,
        "canceling": context.canceling,
    }


# --- workers -------------------------------------------------------------------------------------------------


def said(worker: WorkerSight) -> dict[str, Any]:
    """What a worker says of itself."""
    return dict(json.loads(worker.info)) if worker.info else {}


def place_of(worker: WorkerSight) -> str:
    own = said(worker)
    return f"{own['host']}/{own['pid']}" if own else worker.id


def is_alive(worker: WorkerSight, now: int) -> bool:
    return not worker.reaped and worker.seen_ms > 0 and now - worker.seen_ms < QUIET_MS


def standing(worker: WorkerSight, now: int) -> str:
    if worker.reaped:
        return "presumed dead"
    if not is_alive(worker, now):
        return "silent"
    return "draining" if worker.wish or said(worker).get("draining") else "alive"


async def workers_list(fleet: Opened) -> Shown:
    now = await fleet.admin.now_ms()
    workers = await fleet.admin.workers()
    data = [
        {
            "id": worker.id,
            **{name: said(worker).get(name) for name in ("host", "pid", "release")},
            "standing": standing(worker, now),
            "turns": [ref.task_id for ref in worker.turns],
            "deliveries": worker.deliveries,
            "beat_ms_ago": now - worker.seen_ms if worker.seen_ms else None,
        }
        for worker in workers
    ]
    rows = [
        (
            worker.id,
            place_of(worker),
            standing(worker, now),
            len(worker.turns),
            worker.deliveries,
            since(worker.seen_ms, now),
            said(worker).get("release") or "-",
        )
        for worker in workers
    ]
    head = ("WORKER", "HOST/PID", "STANDING", "TURNS", "DELIVERIES", "LAST BEAT", "RELEASE")
    return Shown(data, table(head, rows, empty=f"No worker of {fleet.namespace} is known."))


# --- tasks ---------------------------------------------------------------------------------------------------


async def tasks_list(fleet: Opened, *, state: str | None, limit: int, caller: str | None) -> Shown:
    now = await fleet.admin.now_ms()
    callers = [caller] if caller else await fleet.surveyor.callers(KEYS_WALKED)
    found: list[tuple[str, TaskView]] = []
    for who in callers:
        page = await fleet.store.tasks.list_tasks(who, state=state, size=limit)
        found += [(who, view) for view in page.tasks]
    latest = sorted(found, key=lambda pair: -pair[1].at_ms)[:limit]
    data = [
        {"task": view.task_id, "context": view.context_id, "caller": who, "state": view.state, "at_ms": view.at_ms}
        for who, view in latest
    ]
    rows = [
        (view.task_id, view.state, since(view.at_ms, now), short(view.context_id), shown_caller(who))
        for who, view in latest
    ]
    return Shown(data, table(("TASK", "STATE", "SINCE", "CONTEXT", "CALLER"), rows, empty="There are no such tasks."))


def shown_caller(caller: str) -> str:
    return "anonymous" if caller == ANONYMOUS.key else caller


async def tasks_show(fleet: Opened, task_id: str, *, caller: str | None, content: bool) -> Shown:
    who = await caller_of_task(fleet, task_id, caller)
    task = await fleet.admin.task(who, task_id.lower())
    if task is None:
        raise NotThere(f"Task {task_id} lapsed while we looked.")
    now = await fleet.admin.now_ms()
    ref = ContextRef.of(who, task.context_id)
    contexts = await fleet.admin.contexts([ref])
    turns = await fleet.admin.progress([it for it in contexts if it.running == task.task_id])
    queue = await fleet.admin.queue(ref)
    place = queue.index(task.task_id) + 1 if task.task_id in queue else None
    data: dict[str, Any] = {
        "task": task.task_id,
        "context": task.context_id,
        "caller": who,
        "state": task.state,
        "phase": task.phase,
        "at_ms": task.at_ms,
        "created_ms": task.created_ms,
        "last_event": task.last,
        "document_bytes": task.doc_bytes,
        "events_logged": task.events,
        "callbacks": task.callbacks,
        "dead_letters": task.letters,
        "lapses_in_ms": task.ttl_ms,
        "queue_place": place,
        "turn": turn_data(turns[0], now) if turns else None,
    }
    pairs: list[tuple[str, object]] = [
        ("task", task.task_id),
        ("state", f"{task.state} since {stamp(task.at_ms)} ({since(task.at_ms, now)})"),
        ("context", short(task.context_id, 120)),
        ("caller", shown_caller(who)),
        ("created", stamp(task.created_ms)),
        ("last event", task.last),
        ("stored", f"{size(task.doc_bytes)} document, {task.events} events in its log"),
        ("callbacks", f"{task.callbacks}, {task.letters} dead letters"),
        ("lapses", f"in {span(task.ttl_ms)}"),
    ]
    if turns:
        turn = turns[0]
        pairs += [
            ("runs on", turn.worker),
            ("runs for", f"{since(turn.context.started_ms, now)}, attempt {turn.attempt}, fence {turn.context.fence}"),
            ("last progress", f"{since(turn.progress_ms, now)} ago"),
            ("queue behind", turn.context.queued),
        ]
        if turn.context.canceling:
            pairs.append(("cancel", "asked for, not answered yet"))
    if place is not None:
        pairs.append(("waits", f"number {place} in its context's queue"))
    text = facts(pairs)
    if content:
        view = await fleet.store.tasks.read_task(who, task.task_id)
        document = json.loads(view.doc) if view else None
        data["content"] = document
        data["metadata"] = task_of(view).metadata if view else None
        text += "\n\n" + json.dumps(document, indent=2, ensure_ascii=False)
    return Shown(data, text)


# --- contexts ------------------------------------------------------------------------------------------------


def context_data(it: ContextSight, now: int) -> dict[str, Any]:
    return {
        "context": it.context_id,
        "caller": it.ref.caller,
        "running": it.running or None,
        "worker": it.owner or None,
        "queued": it.queued,
        "open": it.open,
        "session_bytes": it.session_bytes,
        "counted_for_ms": max(0, it.counted_until_ms - now),
    }


async def contexts_list(fleet: Opened, *, limit: int) -> Shown:
    now = await fleet.admin.now_ms()
    count = await fleet.admin.count_live()
    sights = await fleet.admin.contexts(await fleet.admin.live(limit))
    rows = [
        (
            short(it.context_id),
            it.running or "-",
            it.queued,
            it.open,
            size(it.session_bytes),
            span(max(0, it.counted_until_ms - now)),
            shown_caller(it.ref.caller),
        )
        for it in sights
    ]
    head = ("CONTEXT", "RUNS", "QUEUED", "OPEN", "DIALOGUE", "COUNTS FOR", "CALLER")
    cap = fleet.settings.max_contexts
    summary = f"\n{count} live" + (f" of {cap} (max_contexts, as far as these flags say)" if cap else ", no cap")
    data = {"live": count, "contexts": [context_data(it, now) for it in sights]}
    return Shown(data, table(head, rows, empty="No context is live.") + "\n" + summary)


async def contexts_show(fleet: Opened, context_id: str, *, caller: str | None) -> Shown:
    ref = await context_of(fleet, context_id, caller)
    now = await fleet.admin.now_ms()
    [it] = await fleet.admin.contexts([ref])
    queue, tasks = await fleet.admin.queue(ref), await fleet.admin.open_tasks(ref)
    data = {**context_data(it, now), "queue": queue, "open_tasks": tasks}
    counted = f"for {span(it.counted_until_ms - now)}" if it.counted_until_ms > now else "no"
    pairs: list[tuple[str, object]] = [
        ("context", short(it.context_id, 120)),
        ("caller", shown_caller(ref.caller)),
        ("dialogue", size(it.session_bytes)),
        ("counts as live", counted),
        ("runs", f"{it.running} on {it.owner} for {since(it.started_ms, now)}" if it.running else "nothing"),
        ("queue", ", ".join(queue) or "empty"),
        ("open tasks", ", ".join(tasks) or "none"),
    ]
    return Shown(data, facts(pairs))


# --- callbacks -----------------------------------------------------------------------------------------------


def letter_name(letter: DeadLetter) -> str:
    return f"{letter.task_id}:{letter.name}:{letter.event}"


async def push_list(fleet: Opened, *, limit: int) -> Shown:
    now = await fleet.admin.now_ms()
    letters = await fleet.store.push.list_dead_letters(most=limit)
    total = await fleet.admin.count_letters()
    waiting = await fleet.admin.undelivered()
    serving = sum(worker.deliveries for worker in await fleet.admin.workers())
    data = {
        "dead_letters": [
            {
                "letter": letter_name(it),
                "task": it.task_id,
                "caller": it.caller,
                "event": it.event,
                "at_ms": it.at_ms,
                "about": about(it),
            }
            for it in letters
        ],
        "total": total,
        "nobody_serves": [ref.task_id for ref in waiting],
        "served": serving,
    }
    rows = [(letter_name(it), since(it.at_ms, now), short(json.dumps(about(it)), 80)) for it in letters]
    text = table(("LETTER", "SINCE", "ABOUT"), rows, empty="There are no dead letters.")
    summary = f"\n{total} dead letters, {serving} tasks being served, {len(waiting)} waiting for a worker"
    return Shown(data, text + "\n" + summary)


def about(letter: DeadLetter) -> Any:
    """What the server wrote on the letter: why it was given up, never what it holds."""
    try:
        doc = json.loads(letter.doc)
    except ValueError:
        return letter.doc
    return (
        {name: value for name, value in doc.items() if name not in ("body", "event", "secret")}
        if isinstance(doc, dict)
        else doc
    )
