"""The fleet on a Cluster: all its keys share a slot, but for what a hint about a context leads to."""

from __future__ import annotations

from stores.client import Client
from stores.fleet import FleetStore
from stores.keys import ContextRef, Keys
from stores.places import Places
from stores.records import Limits

# Longer than any call is under way.
GRACE_MS = 10_000


class ApartFleetStore(FleetStore):
    """The same operations."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        super().__init__(client, keys, limits)
        self._places = Places(client, keys, limits)

    async def settle_hint(self, worker: str, entry: str, *, taken: bool = True) -> None:
        # R16: a worker that only seems dead may be between this entry and its admission. Where there was nothing to
        # take, the entry stays until no admission can be under way any more.
        if not taken:
            ttl = int(await self._client.call("PTTL", self._keys.tombstone(worker)))
            if ttl > self._limits.context_ms - GRACE_MS:
                return
        await super().settle_hint(worker, entry)

    async def drop_ready(self, context: ContextRef) -> None:
        await self._places.answer_hint(context)
