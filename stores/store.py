"""The store as one object: turns, tasks, callbacks, the fleet and the signals over one client."""

from __future__ import annotations

from stores.apart import ApartTurnStore
from stores.apart_fleet import ApartFleetStore
from stores.apart_push import ApartPushStore
from stores.caretaker import Errands
from stores.client import Client
from stores.cluster import open_client
from stores.fleet import FleetStore
from stores.keys import Keys
from stores.push import PushStore
from stores.records import Limits
from stores.signals import Signals
from stores.tasks import TaskStore
from stores.turns import TurnStore


class Store:
    """Everything the server asks of Redis. Each part's methods are named operations; there is no get or set."""

    def __init__(self, client: Client, namespace: str, limits: Limits, *, working: str, submitted: str) -> None:
        self.client = client
        self.keys = Keys(namespace)
        self.limits = limits
        self._errands = Errands()
        self.apart: ApartTurnStore | None = None
        """The same as `turns` on a Cluster, whose slots are apart."""
        if client.apart:
            self.apart = ApartTurnStore(client, self.keys, limits, self._errands, working=working, submitted=submitted)
        self.turns = self.apart or TurnStore(client, self.keys, limits, working=working, submitted=submitted)
        self.tasks = TaskStore(client, self.keys, limits, self.settled)
        self.push = (ApartPushStore if client.apart else PushStore)(client, self.keys, limits)
        self.fleet = (ApartFleetStore if client.apart else FleetStore)(client, self.keys, limits)
        self.signals = Signals(client)

    async def engine(self) -> dict[str, str]:
        """Which engine this is, and of which version."""
        info = await self.client.call("INFO", "server")
        if "valkey_version" in info:
            return {"engine": "valkey", "version": str(info["valkey_version"])}
        return {"engine": "redis", "version": str(info.get("redis_version", "unknown"))}

    async def ping(self) -> None:
        await self.client.ping()

    async def settled(self, seconds: float = 1.0) -> None:
        """Waits, at most so long, until other slots know what this process did: on one node they always do."""
        await self._errands.settled(seconds)

    async def sweep(self) -> None:
        """Looks after what dead workers left undone on a Cluster, a little at a time; on one node there is nothing."""
        if self.apart is not None:
            await self.apart.care.sweep()

    async def close(self) -> None:
        await self._errands.close()
        await self.signals.stop()
        await self.client.close()


def open_store(
    url: str, namespace: str, limits: Limits | None = None, *, working: str = "working", submitted: str = "submitted"
) -> Store:
    """A store on the Redis or Valkey at `url`; nothing is sent yet. Call it inside the running loop."""
    return Store(open_client(url), namespace, limits or Limits(), working=working, submitted=submitted)
