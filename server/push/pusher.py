"""The background role that tells callbacks what happens to their tasks.

A delivery comes to this worker with a turn it starts, a config it registers, a hint that nobody serves a task, or the
death of the worker that did. It is found again by the worker's roster, whatever dies on the way.
"""

from __future__ import annotations

import asyncio
import logging

from server.protocol.model import PushConfig
from server.push.configs import PushConfigs
from server.push.delivery import Claim, Means
from server.push.policy import CallbackPolicy
from server.push.serving import TaskDelivery
from server.turns.worker import Worker
from stores.errors import StoreError
from stores.keys import DeliveryRef
from stores.records import Beat, PushEntry

log = logging.getLogger(__name__)

# A POST that is under way when the worker goes may end, so that it need not be sent twice.
LAST_POSTS_SECONDS = 2.0


class Pusher:
    """Serves the callbacks that are this worker's to serve."""

    def __init__(self, worker: Worker, policy: CallbackPolicy, means: Means) -> None:
        self._worker = worker
        self._store = worker.store
        self._means = means
        self.configs = PushConfigs(worker, policy, means.box, self.deliver)
        self._served: dict[str, TaskDelivery] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False
        self._unknown: set[str] = set()
        self._missing: set[str] = set()

    # --- what the turns tell ---------------------------------------------------------------------------------

    async def prepare(self, task_id: str, config: PushConfig, *, every: bool) -> PushEntry:
        return await self.configs.prepare(task_id, config, every=every)

    def deliver(self, ref: DeliveryRef, fence: str) -> None:
        known = self._served.get(ref.text)
        if known is not None and known.claim.fence == fence and known.claim.worker == self._worker.id:
            known.look()
            return
        if self._stopping:
            return  # it is on the roster, and handed on with the others
        if known is not None:
            self._tasks[ref.text].cancel()
        serving = TaskDelivery(Claim(self._worker.id, ref, fence), self._means)
        self._served[ref.text] = serving
        self._tasks[ref.text] = asyncio.create_task(self._serve(ref.text, serving), name=f"pushes {ref.task_id}")

    def look(self, text: str) -> None:
        known = self._served.get(text)
        if known is not None:
            known.look()

    # --- the heartbeat ---------------------------------------------------------------------------------------

    async def check(self, beat: Beat) -> None:
        stored = set(beat.deliveries)
        strange = stored - self._served.keys()
        missing = self._served.keys() - stored
        # Seen twice in a row, it is nothing that crossed this beat.
        for text in strange & self._unknown:
            await self._take(DeliveryRef.parse(text), self._worker.id)
        for text in missing & self._missing:
            await self._prove(text)
        self._unknown, self._missing = strange, set(missing)
        if not self._worker.draining and not self._stopping:
            for text in beat.undelivered:
                await self._take(DeliveryRef.parse(text), "")

    async def _prove(self, text: str) -> None:
        """A delivery that is not on our roster is another worker's, unless the roster itself was lost."""
        fence = await self._store.push.claim_push(self._worker.id, DeliveryRef.parse(text), owner=self._worker.id)
        known = self._served.get(text)
        if known is not None and known.claim.fence != fence:
            log.warning("a2a_server.push.delivery_lost task=%s", known.claim.ref.task_id)
            self._tasks[text].cancel()

    async def recover(self, dead: str) -> None:
        for text in await self._store.fleet.deliveries(dead):
            await self._take(DeliveryRef.parse(text), dead)
            await self._store.fleet.settle_delivery(dead, text)

    def reborn(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _take(self, ref: DeliveryRef, owner: str) -> None:
        fence = await self._store.push.claim_push(self._worker.id, ref, owner=owner)
        if fence is not None:
            log.info("a2a_server.push.delivery_taken task=%s from=%s", ref.task_id, owner or "nobody")
            self.deliver(ref, fence)
        elif owner == self._worker.id:
            await self._store.fleet.settle_delivery(owner, ref.text)

    # --- its life --------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Hands every delivery on, after a moment for the POSTs that are under way."""
        self._stopping = True
        await self._means.poster.wind_down(LAST_POSTS_SECONDS)
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            for text in await self._store.fleet.deliveries(self._worker.id):
                await self._hand_on(DeliveryRef.parse(text))
        except StoreError as error:
            # They stay on the roster, for whoever finds this worker gone.
            log.warning("a2a_server.push.hand_on_failed error=%s", error)

    async def _hand_on(self, ref: DeliveryRef) -> None:
        fence = await self._store.push.claim_push(self._worker.id, ref, owner=self._worker.id)
        if fence is not None:
            await self._store.push.release_push(self._worker.id, ref, fence, hand_on=True)

    async def _serve(self, text: str, serving: TaskDelivery) -> None:
        unowned = False
        try:
            unowned = await serving.run()
        except Exception:
            # Still on the roster: the next beats find it there and take it up again.
            log.exception("a2a_server.push.serving_failed task=%s", serving.claim.ref.task_id)
        finally:
            if self._served.get(text) is serving:
                del self._served[text], self._tasks[text]
        if unowned and not self._stopping:
            await self._take(serving.claim.ref, "")
