"""`nonstick workers list`: who is in the fleet, and what each says of itself."""

from __future__ import annotations

import json
from typing import Any

from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, since, table
from stores.sights import WorkerSight

# A worker that has not beaten for so long is dead or cut off; the others notice sooner.
QUIET_MS = 10_000


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
