"""`nonstick contexts list` and `show`: conversations and their places under max_contexts."""

from __future__ import annotations

from typing import Any

from server.commands.admin.finding import context_of
from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, facts, short, shown_caller, since, table
from stores.sights import ContextSight
from stores.units import size, span


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
