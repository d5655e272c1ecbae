"""`nonstick capacity`: what tasks and contexts of this very fleet take in its store, and so how many fit."""

from __future__ import annotations

from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, table
from stores.census import OF_CONTEXT, OF_TASK, SAMPLES, Census
from stores.units import size

GB = 1_000_000_000


async def capacity(fleet: Opened, *, most: int) -> Shown:
    census = await fleet.surveyor.census(most, measure=True)
    memories = [await node.call("INFO", "memory") for node in await fleet.store.client.nodes()]
    tasks, contexts = census.counts["task"], census.counts["context"]
    per_task, per_context = per(census, OF_TASK, tasks), per(census, OF_CONTEXT, contexts)
    # The listing of a caller holds a line for each of its tasks.
    per_task += per(census, ("index of a caller",), tasks)
    # Its events lapse soon after it closed; what is left is what most of the stored tasks take.
    settled = per_task - per(census, ("event log",), tasks)
    used, cap = (sum(int(info.get(name, 0)) for info in memories) for name in ("used_memory", "maxmemory"))
    data = {
        "tasks": tasks,
        "contexts": contexts,
        "bytes_per_task": round(per_task),
        "bytes_per_task_without_events": round(settled),
        "bytes_per_context": round(per_context),
        "tasks_per_gb": int(GB / per_task) if per_task else None,
        "tasks_per_gb_without_events": int(GB / settled) if settled else None,
        "contexts_per_gb": int(GB / per_context) if per_context else None,
        "used_memory": used,
        "maxmemory": cap or None,
        "complete": census.complete,
        "classes": {
            kind: {"keys": count, "mean_bytes": round(census.mean(kind))} for kind, count in census.counts.most_common()
        },
    }
    rows = [
        (kind, count, size(census.mean(kind)), size(census.mean(kind) * count))
        for kind, count in census.counts.most_common()
    ]
    text = [
        table(("CLASS", "KEYS", "MEAN", "TOGETHER"), rows, empty=f"{fleet.namespace} holds nothing yet."),
        "",
        f"Measured on up to {SAMPLES} keys of each class" + ("." if census.complete else ", of a part of all keys."),
    ]
    if per_task and per_context:
        text += [
            "",
            f"A task takes {size(per_task)} with its events, message and callbacks: {int(GB / per_task):,} per GB;",
            f"once its events have lapsed, {size(settled)}: {int(GB / settled):,} per GB.",
            f"A context takes {size(per_context)} with its dialogue: {int(GB / per_context):,} per GB.",
            f"The engine uses {size(used)}" + (f" of {size(cap)}." if cap else ", without a maxmemory."),
            "",
            "Closed tasks lapse after task_retention_seconds, their events after event_log_seconds, contexts after "
            "context_retention_seconds:",
            "memory = tasks a second x seconds kept x bytes of a task + contexts kept x bytes of a context.",
        ]
    return Shown(data, "\n".join(text))


def per(census: Census, kinds: tuple[str, ...], count: int) -> float:
    """What all keys of these classes take, shared out over so many."""
    total = sum(census.counts[kind] * census.mean(kind) for kind in kinds)
    return total / count if count else 0.0
