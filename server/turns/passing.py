"""Leaving a turn to a worker that can go on with its dialogue better than this one.

During a deploy two versions of an assistant serve one fleet, and a dialogue may stand in a flow that only one of them
has. The other would have to cancel that flow, so it gives the turn back while somebody is there who need not; after a
bounded time, or where nobody is, it goes on and says what it did.
"""

from __future__ import annotations

import json
import logging
import time

from stores import Store
from stores.errors import StoreError
from stores.records import Ticket

log = logging.getLogger(__name__)


class Passing:
    """Passes turns on for one worker."""

    def __init__(self, store: Store, seconds: float) -> None:
        """`seconds`: how long a turn may be passed around."""
        self._store = store
        self._seconds = seconds
        self._left: dict[str, float] = {}

    async def pass_on(self, ticket: Ticket, wanted: str) -> bool:
        """Whether the turn is not this worker's any more. `wanted` is the version that can go on with it."""
        if ticket.attempt > 1 or not ticket.input.startswith("send"):
            return False
        try:
            if not await self._somebody(wanted, ticket.worker):
                return False
            word = await self._store.turns.pass_turn(ticket, int(self._seconds * 1000))
        except StoreError as error:
            # Whether it was passed or not, what is written from here on is judged by its fence.
            log.warning("a2a_server.turn.not_passed task=%s error=%s", ticket.task_id, error)
            return False
        if word == "passed":
            now = time.monotonic()
            self._left = {ref: until for ref, until in self._left.items() if until > now}
            self._left[ticket.context.text] = now + self._seconds
            log.info("a2a_server.turn.passed_on task=%s wanted=%s", ticket.task_id, wanted)
        return word != "kept"

    def leaves(self, context: str) -> bool:
        """Whether this worker gave back a turn of this context lately: others may try first."""
        return self._left.get(context, 0.0) > time.monotonic()

    async def _somebody(self, wanted: str, me: str) -> bool:
        for worker, info in (await self._store.fleet.workers()).items():
            said = json.loads(info) if info and worker != me else {}
            if said.get("assistant") == wanted and not said.get("draining"):
                return True
        return False
