"""What the store takes and answers: frozen records, one per reply word.

Normal outcomes are replies, to be taken apart with `match`; exceptions mean that something is broken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stores.keys import ContextRef
from stores.lean import lean

Phase = Literal["open", "waiting", "closed"]


@lean
@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much is kept. Times in milliseconds, 0 where it means "no such bound"."""

    message_ms: int = 600_000
    task_ms: int = 86_400_000
    log_ms: int = 900_000
    context_ms: int = 2_592_000_000
    idle_ms: int = 0
    beat_ms: int = 60_000
    queue_limit: int = 16
    max_contexts: int = 1000
    max_open: int = 100
    caller_running: int = 0
    caller_contexts: int = 0
    caller_tasks: int = 0
    reuse: Literal["reject", "replay"] = "reject"
    push_configs: int = 0
    """Callbacks a task may have; 0 also means that this worker serves none."""


@lean
@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a task's log. `kind` and `doc` are the server's; `start` (no document) is the store's own."""

    id: str
    kind: str
    at_ms: int
    doc: str


@lean
@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as it was at one instant: the document, and the entries it does not cover yet."""

    task_id: str
    context_id: str
    state: str
    phase: Phase
    at_ms: int
    doc: str
    cursor: str
    last: str
    trimmed: str
    entries: tuple[Entry, ...]
    cid: str = ""


@lean
@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to run one turn: task, fence and worker are proven by every write."""

    context: ContextRef
    worker: str
    task_id: str
    mid: str
    fence: str
    input: str
    attempt: int
    session: str
    started_ms: int
    view: TaskView
    delivery: str = ""
    """The fence of the task's delivery, where this worker has it."""
    hint: str = field(default="", compare=False)
    """How the worker's roster has the turn, where the store is a Cluster."""
    asked_ms: int = 0
    """When the message was admitted, by the same clock as `started_ms`; 0 when an older release admitted it."""


@lean
@dataclass(frozen=True, slots=True)
class PushEntry:
    """A callback to be stored: `name` and `doc` are the server's. `from_start`: the new task itself is the first thing
    it is told; otherwise the events."""

    name: str
    doc: str
    from_start: bool = False


@lean
@dataclass(frozen=True, slots=True)
class Admission:
    """A message asking to be accepted. `token` is this attempt's own, so that a repeat of it is recognised."""

    context: ContextRef
    context_id: str
    mid: str
    token: str
    task_id: str
    digest: str
    input: str
    doc: str = ""
    named: bool = False
    joined: str = ""
    quiet: bool = False
    super_state: str = ""
    super_doc: str = ""
    push: PushEntry | None = None


@lean
@dataclass(frozen=True, slots=True)
class Admitted:
    ticket: Ticket


@lean
@dataclass(frozen=True, slots=True)
class Queued:
    task_id: str
    at_ms: int
    place: int
    delivery: str = ""


@lean
@dataclass(frozen=True, slots=True)
class Replayed:
    """The message ended before: its task as it is now, or the direct reply, or the error it met."""

    task_id: str
    reply: str
    error: str
    view: TaskView | None


@lean
@dataclass(frozen=True, slots=True)
class InFlight:
    task_id: str


@lean
@dataclass(frozen=True, slots=True)
class Reused:
    task_id: str


@lean
@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was stored. `why` is unknown, mismatched or closed (the named task), or a limit that was reached."""

    why: Literal[
        "unknown",
        "mismatched",
        "closed",
        "context_limit",
        "queue_full",
        "open_limit",
        "too_many",
        "caller_running",
        "caller_contexts",
        "caller_tasks",
    ]


AdmitReply = Admitted | Queued | Replayed | InFlight | Reused | Refused


@lean
@dataclass(frozen=True, slots=True)
class Appended:
    at_ms: int
    cancel_requested: bool
    heard: bool = False
    """Whether anybody follows the task through its channel; a repeated call does not know."""


@lean
@dataclass(frozen=True, slots=True)
class Lost:
    """The turn is not the caller's any more; `state` is what the task came to, where known."""

    state: str = ""


@lean
@dataclass(frozen=True, slots=True)
class Finish:
    """How a turn ends. `events` are (kind, document); `reply` is a direct Message's document instead of a task."""

    state: str
    phase: Phase
    doc: str
    seq: int
    events: tuple[tuple[str, str], ...]
    session: str | None = None
    reply: str = ""
    take_next: bool = True


@lean
@dataclass(frozen=True, slots=True)
class Finished:
    at_ms: int
    next: Ticket | None


@lean
@dataclass(frozen=True, slots=True)
class CancelReply:
    """requested: a running turn was marked (fence and owner are given); canceled: it was queued and is closed now;
    idle: the task waits for its caller; closed: too late; changed: the document given is not the current one; unknown.
    """

    word: Literal["requested", "canceled", "idle", "closed", "changed", "unknown"]
    fence: str = ""
    owner: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat brought back. `counters` maps every known incarnation to its counter ('' when it lapsed)."""

    counters: dict[str, str]
    turns: tuple[str, ...]
    ready: tuple[str, ...]
    generation: str = ""
    deliveries: tuple[str, ...] = ()
    undelivered: tuple[str, ...] = ()
    wish: str = ""
    """What an operator asks of this worker: `drain`, or nothing."""


@dataclass(frozen=True, slots=True)
class Reaped:
    """This worker was presumed dead; whatever it ran belongs to others."""


@lean
@dataclass(frozen=True, slots=True)
class MessageRecord:
    task_id: str
    status: Literal["queued", "running", "closed"]
    reply: str
    error: str


@lean
@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A callback as it is stored. `version` is new whenever it was put; `cursor` is the last event it was told."""

    name: str
    version: str
    cursor: str
    doc: str


@lean
@dataclass(frozen=True, slots=True)
class PushBook:
    """All callbacks of a task, the first registered first; `rev` moves with each of them. `owner` and `fence` are the
    delivery's claim, `phase` and `last` the task's."""

    configs: tuple[StoredConfig, ...]
    rev: str
    owner: str
    fence: str
    phase: Phase
    last: str


@lean
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that was given up on; `doc` is the server's."""

    caller: str
    task_id: str
    name: str
    event: str
    at_ms: int
    doc: str


@lean
@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, newest first; `position` is where the next one starts, '' after the last."""

    tasks: tuple[TaskView, ...]
    total: int
    position: str
