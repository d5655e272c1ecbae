"""A turn's events on their way to the log, and from there to the followers in this worker.

    emit -> buffer -> append_events (one call under way, batching what came meanwhile) -> local followers

A client sees an event only after Redis acknowledged it. An agent that emits faster than Redis takes it is held back.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from server.observe import metrics
from server.protocol import documents
from server.protocol.folding import fold_all
from server.protocol.model import ArtifactUpdate, Event, StatusUpdate, Task
from server.turns import cursor as cursors
from server.turns.bell import Bell
from server.turns.hub import Hub, Inbox, Step
from stores import Store
from stores.errors import StoreUnavailable
from stores.records import Lost, Ticket

log = logging.getLogger(__name__)
Reply = TypeVar("Reply")

# An agent that emits faster than Redis takes it is held back here; a batch is at most this long.
BUFFER_EVENTS = 256
# After so many events a folded document is stored, and the log behind it trimmed to what followers are likely to need.
SNAPSHOT_EVENTS = 256
LOG_KEEP = 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one turn may take. Zero means no bound."""

    timeout_s: float = 600.0
    cancel_wait_s: float = 10.0
    max_events: int = 100_000
    max_task_bytes: int = 8 * 1024 * 1024
    max_session_bytes: int = 1024 * 1024
    pass_on_s: float = 0.0
    """How long it may be left to others whose assistant can go on with its dialogue."""


class TurnOver(asyncio.CancelledError):
    """Raised into an agent that emits after its turn ended."""


class BoundReached(Exception):
    """The turn asked for more than it may have; `kind` becomes its error_type."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Entry(NamedTuple):
    """One event with its place in the log and the form it has there."""

    seq: int
    event: Event
    kind: str
    doc: str

    @property
    def state(self) -> str:
        return self.event.status.state.value if isinstance(self.event, StatusUpdate) else ""


class Outbox:
    """The events of one turn. `on_lost` and `on_cancel` are told what the store says of the turn on the way."""

    def __init__(
        self,
        ticket: Ticket,
        task: Task,
        *,
        store: Store,
        hub: Hub,
        bounds: Bounds,
        watched: bool,
        on_lost: Callable[[], None],
        on_cancel: Callable[[], None],
    ) -> None:
        self._task = task
        self._unfolded: list[Event] = []
        self.emitted = 0
        self.batches = 0
        """Calls of the store that events took so far."""
        self._ticket = ticket
        self._store = store
        self._hub = hub
        self._bounds = bounds
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        # The stream's client may be slow to begin; without its inbox it would miss what came before, and not know.
        self._early = hub.inbox() if watched else None
        last = cursors.of(ticket.view.last)
        self._seq = last[1] + 1 if last[0] == int(ticket.fence) else 1
        self._buffer: list[Entry] = []
        self._room = asyncio.Event()
        self._room.set()
        self._flusher: asyncio.Task[None] | None = None
        self._news = Bell()
        self._since_snapshot = 0
        self._followed = False
        self._bytes = len(ticket.view.doc)
        self._closed = False

    @property
    def task(self) -> Task:
        """The task with every event folded in, sent or not."""
        if self._unfolded:
            self._task = fold_all(self._task, self._unfolded)
            self._unfolded = []
        return self._task

    async def emit(self, event: Event) -> None:
        """Takes an event of the agent's. What can't be written is the agent's mistake, and raised into it."""
        if self._closed:
            raise TurnOver("this turn has ended; nothing more is written for it")
        self._count(event)
        self.put(event)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush(), name=f"events {self._ticket.task_id}")
        else:
            self._news.ring()
        if len(self._buffer) >= BUFFER_EVENTS:
            self._room.clear()
            await self._room.wait()
            if self._closed:
                raise TurnOver("this turn has ended; nothing more is written for it")

    def put(self, event: Event) -> None:
        """Puts an event last in line without sending it. Raises ValueError or TypeError for what is not plain JSON."""
        kind, doc = documents.dump_event(event)
        if not doc.isascii():
            doc.encode()  # half a character can be in a text, but not in a store
        self._unfolded.append(event)
        self._buffer.append(Entry(self._seq, event, kind, doc))
        self._seq += 1

    def shut(self) -> None:
        """Nothing more is taken or sent."""
        self._closed = True
        self._room.set()
        self._news.ring()

    def let_go(self) -> None:
        """Ends the circle of a turn and its outbox, which only the garbage collector could take apart."""
        self._on_lost = self._on_cancel = _nothing

    async def rest(self) -> list[Entry]:
        """What is left when the turn ends, after the call that is under way."""
        self.shut()
        if self._flusher is not None:
            await self._flusher
        return self._buffer

    def publish(self, entries: list[Entry], at_ms: int) -> None:
        """Hands acknowledged events to the followers in this worker."""
        if self._early is None and not self._hub.follows(self._ticket.task_id):
            return
        fence = int(self._ticket.fence)
        steps: list[Step] = [((fence, entry.seq), _stamped(entry.event, at_ms)) for entry in entries]
        if self._early is not None:
            self._early.put(steps)
        self._hub.publish(self._ticket.task_id, steps)

    def wake(self) -> None:
        """Makes followers look for themselves."""
        if self._early is not None:
            self._early.wake()
        self._hub.wake(self._ticket.task_id)

    def claim_inbox(self) -> Inbox | None:
        """For the one stream this turn was started for: all its events from the ticket's on, taken or still to come."""
        inbox, self._early = self._early, None
        return inbox

    def _count(self, event: Event) -> None:
        self.emitted += 1
        bounds = self._bounds
        if bounds.max_events and self.emitted > bounds.max_events:
            raise BoundReached("too_many_events", f"a turn may emit {bounds.max_events} events (max_events_per_task)")
        if isinstance(event, ArtifactUpdate):
            self._bytes += sum(len(part.value) if isinstance(part.value, str) else 200 for part in event.artifact.parts)
            if bounds.max_task_bytes and self._bytes > bounds.max_task_bytes:
                raise BoundReached("task_too_large", f"a task may hold {bounds.max_task_bytes} bytes (max_task_bytes)")

    async def _flush(self) -> None:
        """Sends what is buffered, until the turn ends; an agent that waits for room is let go in any case."""
        try:
            while not self._closed:
                if not self._buffer:
                    await self._news.wait()
                    continue
                batch, self._buffer = self._buffer, []
                self._room.set()
                await self._send(batch)
        finally:
            self._room.set()

    async def _send(self, batch: list[Entry]) -> None:
        doc = ""
        self.batches += 1
        self._since_snapshot += len(batch)
        if self._since_snapshot >= SNAPSHOT_EVENTS:
            doc = documents.dump_task(self.task)
            self._since_snapshot = 0
        rows = [(entry.kind, entry.state, entry.doc) for entry in batch]
        append = partial(
            self._store.turns.append_events,
            self._ticket,
            batch[0].seq,
            rows,
            doc=doc,
            keep=LOG_KEEP,
            carry=self._followed,
        )
        reply = await insist(append, self._ticket.task_id)
        if isinstance(reply, Lost):
            metrics.FENCED.add("append")
            self._on_lost()
            return
        self._followed = reply.heard
        self.publish(batch, reply.at_ms)
        if reply.cancel_requested:
            self._on_cancel()


async def insist(call: Callable[[], Awaitable[Reply]], task_id: str) -> Reply:
    """Repeats a store operation while Redis is away: the work is done, and the fence decides if it counts."""
    delay = 0.1
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            log.warning("a2a_server.turn.store_unavailable task=%s error=%s", task_id, error)
            # Everything that waits for Redis began to wait in the same moment.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, 1.0)


def _nothing() -> None:
    """Whom it would concern is gone."""


def _stamped(event: Event, at_ms: int) -> Event:
    if isinstance(event, StatusUpdate):
        return event.at(at_ms)
    return event
