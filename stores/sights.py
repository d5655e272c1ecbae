"""What operators see of a fleet: workers, contexts, turns and tasks, each as it was a moment ago."""

from __future__ import annotations

from dataclasses import dataclass

from stores.keys import ContextRef, TurnRef


@dataclass(frozen=True, slots=True)
class WorkerSight:
    """One incarnation. `seen_ms` is its latest beat, 0 when that lapsed; `info` is what it says of itself."""

    id: str
    info: str
    count: str
    seen_ms: int
    wish: str
    turns: tuple[TurnRef, ...]
    deliveries: int
    reaped: bool


@dataclass(frozen=True, slots=True)
class ContextSight:
    """One context. `counted_until_ms` is the deadline of its place under the cap, 0 when it has none."""

    ref: ContextRef
    context_id: str
    running: str
    owner: str
    fence: str
    mid: str
    started_ms: int
    attempt: int
    canceling: bool
    queued: int
    open: int
    session_bytes: int
    counted_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class TurnSight:
    """One turn that runs, or (`worker` is '') a queue that nobody runs."""

    context: ContextSight
    worker: str
    state: str
    attempt: int
    progress_ms: int


@dataclass(frozen=True, slots=True)
class TaskSight:
    """The facts of a task beside its document."""

    caller: str
    task_id: str
    context_id: str
    state: str
    phase: str
    at_ms: int
    created_ms: int
    last: str
    doc_bytes: int
    events: int
    callbacks: int
    letters: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class FleetCounts:
    """How many there are of what the whole fleet shares."""

    live: int
    workers: int
    letters: int
    undelivered: int
    ready: int
