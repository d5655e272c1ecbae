"""One line a turn, its numbers, and the ids that every line logged during a turn carries.

No text of a message, no token and no slot value is in any of it: callers and contexts are named by their ids alone.
"""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar
from dataclasses import dataclass

from server.observe import metrics, traces
from stores.lean import lean
from stores.records import Ticket

log = logging.getLogger(__name__)

_LINE = (
    "a2a_server.turn.ended task=%s state=%s duration_ms=%d queue_wait_ms=%d round_trips=%d attempt=%d "
    "caller=%s context=%s message=%s worker=%s dialect=%s"
)


@lean
@dataclass(frozen=True, slots=True)
class TurnIds:
    """The turn that runs in this context of execution."""

    task: str
    trace: str = ""


current: ContextVar[TurnIds | None] = ContextVar("nonstick_turn", default=None)
# Set by the transport for a request. A turn that starts in it inherits it; one that comes out of a queue has none.
dialect: ContextVar[str] = ContextVar("nonstick_dialect", default="")


class TurnLog:
    """Follows one turn from its start to its line."""

    def __init__(self, ticket: Ticket, worker: str, trace: str = "") -> None:
        self._ticket = ticket
        self._worker = worker
        self._began = time.monotonic()
        current.set(TurnIds(ticket.task_id, trace))

    def ended(self, state: str, round_trips: int) -> None:
        """`state` is the task's, or `lost` when the turn was not this worker's any more."""
        ticket = self._ticket
        seconds = time.monotonic() - self._began
        # A later attempt began to wait when its worker died, not when the message came.
        waited = max(0, ticket.started_ms - ticket.asked_ms) if ticket.asked_ms and ticket.attempt <= 1 else 0
        metrics.TURNS.add(state)
        metrics.TURN_SECONDS.observe(seconds)
        metrics.QUEUE_SECONDS.observe(waited / 1000)
        if log.isEnabledFor(logging.INFO):
            facts = (
                ticket.task_id,
                state,
                seconds * 1000,
                waited,
                round_trips,
                ticket.attempt,
                ticket.context.caller[:12],
                ticket.context.cid[:12],
                ticket.mid[:12],
                self._worker,
                dialect.get() or "-",
            )
            # What log.info does but for finding out who called, which every turn would pay for.
            log.handle(log.makeRecord(log.name, logging.INFO, "", 0, _LINE, facts, None))

    @staticmethod
    def forget() -> None:
        """What starts from here on is another turn, of another request."""
        current.set(None)
        dialect.set("")
        traces.incoming.set("")
