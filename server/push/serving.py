"""All callbacks of one task, while this worker has the claim: one loop each, so that none waits for another.

It lets go when every loop has come to where the task rests. When the store says that more has happened meanwhile, the
loops go on from where they were.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from server.push.delivery import Claim, ConfigDelivery, Means, NotOurs, insist
from server.turns import cursor as cursors
from server.turns.follow import TaskGone
from stores.records import PushBook

log = logging.getLogger(__name__)

# A fault of ours must not become a busy loop; the next try comes after this.
FAULT_SECONDS = 5.0

Place = tuple[str, str]


class TaskDelivery:
    """Serves one claim until nothing is left, or until it is lost."""

    def __init__(self, claim: Claim, means: Means) -> None:
        self.claim = claim
        self._means = means
        self._changed = asyncio.Event()
        self._loops: dict[Place, ConfigDelivery] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}

    def look(self) -> None:
        """The configs may have changed."""
        self._changed.set()

    async def run(self) -> bool:
        """Whether the claim is lost and nobody has it: a failover forgot it."""
        try:
            while True:
                self._changed.clear()
                book = await insist(partial(self._means.store.push.read_push_configs, self.claim.ref))
                if book is None:
                    await self._release(None)
                    return False
                if (book.owner, book.fence) != (self.claim.worker, self.claim.fence):
                    return bool(book.configs) and book.owner == ""
                await self._follow(book)
                await self._wait()
                if not self._tasks and not self._changed.is_set() and await self._release(book):
                    return False
        finally:
            await self._stop(list(self._tasks))

    async def _follow(self, book: PushBook) -> None:
        """Makes the loops those of the book: new ones start, deleted and replaced ones stop at once."""
        there = {(config.name, config.version): config for config in book.configs}
        await self._stop([place for place in self._tasks if place not in there])
        self._loops = {place: loop for place, loop in self._loops.items() if place in there}
        for place, config in there.items():
            loop = self._loops.setdefault(place, ConfigDelivery(self.claim, config, self._means))
            caught_up = loop.at is not None and loop.at >= cursors.of(book.last)
            if place not in self._tasks and not (caught_up and book.phase != "open"):
                name = f"push {self.claim.ref.task_id}"
                self._tasks[place] = asyncio.create_task(loop.run(), name=name)

    async def _wait(self) -> None:
        """Until all loops have ended or the configs changed."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            while self._tasks and not self._changed.is_set():
                await asyncio.wait({*self._tasks.values(), changed}, return_when=asyncio.FIRST_COMPLETED)
                for place in [place for place, task in self._tasks.items() if task.done()]:
                    await self._ended(self._tasks.pop(place))
        finally:
            changed.cancel()

    async def _ended(self, task: asyncio.Task[None]) -> None:
        try:
            task.result()
        except (NotOurs, TaskGone):
            # What the store says now is read in the next round.
            self._changed.set()
        except Exception:
            log.exception("a2a_server.push.fault task=%s", self.claim.ref.task_id)
            await asyncio.sleep(FAULT_SECONDS)
            self._changed.set()

    async def _release(self, book: PushBook | None) -> bool:
        """Whether this delivery is over, since nothing is left or since it is another worker's."""
        claim = self.claim
        seen = max((loop.at for loop in self._loops.values() if loop.at is not None), default=None)
        if any(loop.at != seen for loop in self._loops.values()):
            return False
        release = partial(self._means.store.push.release_push, claim.worker, claim.ref, claim.fence)
        rev = book.rev if book else ""
        word = await insist(partial(release, seen=cursors.render(seen) if seen else "", rev=rev))
        return word != "busy"

    async def _stop(self, places: list[Place]) -> None:
        tasks = [self._tasks.pop(place) for place in places]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
