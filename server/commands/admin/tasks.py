"""`nonstick tasks list` and `show`: tasks of every caller, and one with what is known of it."""

from __future__ import annotations

import json
from typing import Any

from server.commands.admin.finding import NotThere, caller_of_task
from server.commands.admin.flags import KEYS_WALKED
from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, facts, short, shown_caller, since, stamp, table
from server.commands.admin.turns import turn_data
from server.observe.traces import trace_id
from server.turns.record import task_of
from stores.keys import ContextRef
from stores.records import TaskView
from stores.units import size, span


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
    view = await fleet.store.tasks.read_task(who, task.task_id)
    trace = trace_id(task_of(view).trace) if view else ""
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
        "trace": trace or None,
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
    if trace:
        pairs.append(("trace", trace))
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
        document = json.loads(view.doc) if view else None
        data["content"] = document
        data["metadata"] = task_of(view).metadata if view else None
        text += "\n\n" + json.dumps(document, indent=2, ensure_ascii=False)
    return Shown(data, text)
