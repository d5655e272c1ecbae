"""`nonstick ps`: what runs where, since when, how far, and what waits behind it."""

from __future__ import annotations

from typing import Any

from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, short, since, table
from server.commands.admin.workers import is_alive, place_of
from stores.sights import TurnSight


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
