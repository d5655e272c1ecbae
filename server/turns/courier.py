"""What the turns need of whoever tells callbacks about them; they know nothing of HTTP, policies or secrets."""

from __future__ import annotations

from typing import Protocol

from server.protocol.model import PushConfig
from stores import Store
from stores.keys import DeliveryRef
from stores.records import Beat, PushEntry


async def leave_to_others(store: Store, worker: str, dead: str) -> None:
    """What a worker without a courier does with the deliveries of a dead one: others find them by their hints."""
    for text in await store.fleet.deliveries(dead):
        ref = DeliveryRef.parse(text)
        fence = await store.push.claim_push(worker, ref, owner=dead)
        if fence is not None:
            await store.push.release_push(worker, ref, fence, hand_on=True)
        await store.fleet.settle_delivery(dead, text)


class Courier(Protocol):
    """Serves the callbacks of tasks on behalf of one worker."""

    async def prepare(self, task_id: str, config: PushConfig, *, every: bool) -> PushEntry:
        """Checks a callback that came with a message, and makes what is stored of it. `every`: it wants to know of
        states on the way, too. Raises the protocol's error where it is refused."""

    def deliver(self, ref: DeliveryRef, fence: str) -> None:
        """The delivery of this task is this worker's. Harmless when it is under way."""

    def look(self, text: str) -> None:
        """The callbacks of a task that this worker serves have changed."""

    async def check(self, beat: Beat) -> None:
        """Compares what is stored as this worker's with what it serves, and takes what nobody does."""

    async def recover(self, dead: str) -> None:
        """Takes over the deliveries of a dead worker."""

    def reborn(self) -> None:
        """This worker was presumed dead: its deliveries are others' now."""
