"""One callback of one task: told every event it wants, in order, until the task rests.

The task's log is the outbox. Before each POST the store is asked whether the delivery is still ours and the config
still the same; after it the cursor moves. What dies in between is sent again from the cursor, by whoever takes over,
under the same id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from server.observe import metrics, traces
from server.protocol.model import Event, Task
from server.push.attempt import Poster, Tried, host_of
from server.push.document import Registered, load_config, stored_id
from server.push.errors import SecretUnreadable
from server.push.rendering import Picture, begun, body_of, headers_of, rests, wanted
from server.push.secrets import SecretBox
from server.push.settings import Persistence
from server.push.signing import message_id
from server.turns import cursor as cursors
from server.turns.cursor import Cursor
from server.turns.follow import Following, TaskGone
from server.turns.record import task_of
from stores import Store
from stores.errors import StoreUnavailable
from stores.keys import DeliveryRef
from stores.push import Held
from stores.records import StoredConfig, TaskView

log = logging.getLogger(__name__)
Reply = TypeVar("Reply")

LONGEST_STORE_WAIT = 1.0


class NotOurs(Exception):
    """The delivery was taken by another worker, or the config was deleted or replaced: not one more attempt."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to serve a task's callbacks."""

    worker: str
    ref: DeliveryRef
    fence: str


@dataclass(frozen=True, slots=True)
class Means:
    """What every delivery of a worker needs."""

    store: Store
    following: Following
    poster: Poster
    box: SecretBox
    persistence: Persistence


async def insist(call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Repeats a store operation while Redis is away: the claim decides if it still counts."""
    delay = 0.1
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            log.warning("a2a_server.push.store_unavailable error=%s", error)
            # Everything that waits for Redis began to wait in the same moment.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, LONGEST_STORE_WAIT)


class ConfigDelivery:
    """Serves one config until the task rests; `at` is how far it came."""

    def __init__(self, claim: Claim, config: StoredConfig, means: Means) -> None:
        self.config = config
        self.at: Cursor | None = cursors.of(config.cursor) if config.cursor else None
        self._claim = claim
        self._means = means
        self._picture: Picture | None = None
        self._failing = False
        self._trace = ""

    async def run(self) -> None:
        """Raises NotOurs or TaskGone where there is nothing more to do for this holder."""
        registered = self._registered()
        if traces.on():
            self._trace = task_of(await self._view()).trace
        if self.at is None:
            # From the beginning of the log, since its first entry has the time that streams show for the task.
            view = await self._view(cursors.render(cursors.START))
            await self._tell(registered, begun(view), cursors.START)
            self.at = cursors.START
        whole = registered is not None and registered.config.dialect == "0.3"
        if whole and self._picture is None:
            self._picture = Picture.of(await self._view(), self.at)
        ref = self._claim.ref
        follower = self._means.following.follow(ref.caller, ref.task_id, self.at)
        try:
            async for seen in follower:
                item = self._pictured(seen.item, seen.cursor)
                if registered is None or wanted(registered, seen.item):
                    await self._tell(registered, item, seen.cursor)
                self.at = seen.cursor
                if rests(seen.item):
                    return
        finally:
            await follower.aclose()

    def _registered(self) -> Registered | None:
        """None where it can't be read: then all that can be done is to say so in dead letters."""
        try:
            return load_config(self._means.box, self._claim.ref.task_id, self.config.doc)
        except SecretUnreadable as error:
            log.error("a2a_server.push.secret_unreadable task=%s reason=%s", self._claim.ref.task_id, error.reason)
            return None

    def _pictured(self, item: Event | Task, cursor: Cursor) -> Event | Task:
        if self._picture is None:
            return item
        if isinstance(item, Task):
            self._picture = Picture(item, cursor)
            return item
        return self._picture.after(item, cursor)

    async def _tell(self, registered: Registered | None, item: Event | Task, cursor: Cursor) -> None:
        """Delivers one event or buries it."""
        to, important = cursors.render(cursor), rests(item)
        if registered is None:
            if important:
                await self._bury(None, to, Tried("never", "secret_unreadable"), 0, important=True)
            return
        body, headers = body_of(registered, item), headers_of(registered)
        ref = self._claim.ref
        delivery_id = message_id(ref.task_id, registered.id, to)
        # While a receiver does not answer, states on the way get one try each: they must not keep the end waiting.
        most = self._means.persistence.attempts if important or not self._failing else 1
        attempt = 0
        while True:
            attempt += 1
            await self._settle(cursors.render(self.at) if self.at is not None else "")
            tried = await self._post(registered, delivery_id, body, headers, attempt)
            if tried.verdict == "delivered":
                self._failing = False
                self._log(logging.INFO, "delivered", registered, to, attempt, tried)
                await self._settle(to)
                return
            if tried.verdict == "never" or attempt >= most:
                self._failing = tried.verdict == "later"
                await self._bury(registered, to, tried, attempt, important=important)
                return
            delay = self._means.persistence.delay(attempt, random.random(), tried.asked_s)
            self._log(logging.WARNING, f"retry in={delay:.1f}", registered, to, attempt, tried)
            await asyncio.sleep(delay)

    async def _post(
        self, registered: Registered, delivery_id: str, body: bytes, headers: dict[str, str], attempt: int
    ) -> Tried:
        """One attempt, in the trace that is kept with the task; the receiver is told which one it is."""
        post, url = self._means.poster.post, registered.config.url
        if not traces.on():
            return await post(url, delivery_id, body, headers)
        task, worker = self._claim.ref.task_id, self._claim.worker
        with traces.span("nonstick.push", self._trace, task=task, attempt=attempt, worker=worker) as span:
            tried = await post(url, delivery_id, body, {**headers, "traceparent": traces.current()})
            traces.tell(span, host=host_of(url), said=tried.said, verdict=tried.verdict)
            return tried

    async def _bury(
        self, registered: Registered | None, to: str, tried: Tried, attempt: int, *, important: bool
    ) -> None:
        claim = self._claim
        letter = {
            "config": registered.id if registered else stored_id(self.config.doc),
            "host": host_of(registered.config.url) if registered else "?",
            "said": tried.said,
            "attempts": attempt,
        }
        bury = partial(self._means.store.push.bury_push, claim.worker, claim.ref, claim.fence, self.config, to)
        self._check(await insist(partial(bury, letter=json.dumps(letter), always=important)))
        self._log(logging.ERROR, "dead_letter", registered, to, attempt, tried)

    async def _settle(self, to: str) -> None:
        claim = self._claim
        settle = partial(self._means.store.push.settle_push, claim.worker, claim.ref, claim.fence, self.config, to)
        self._check(await insist(settle))

    def _check(self, held: Held) -> None:
        if held != "settled":
            raise NotOurs(held)

    async def _view(self, after: str = "") -> TaskView:
        ref = self._claim.ref
        view = await insist(partial(self._means.store.tasks.read_task, ref.caller, ref.task_id, after))
        if view is None:
            raise TaskGone(ref.task_id)
        return view

    def _log(self, level: int, event: str, registered: Registered | None, to: str, attempt: int, tried: Tried) -> None:
        metrics.PUSHES.add(event.partition(" ")[0])
        log.log(
            level,
            "a2a_server.push.%s task=%s config=%s event=%s attempt=%d status=%s host=%s",
            event,
            self._claim.ref.task_id,
            registered.id if registered else "?",
            to,
            attempt,
            tried.said,
            host_of(registered.config.url) if registered else "?",
        )
