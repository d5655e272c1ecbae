"""The store as one object: turns, tasks, callbacks, the fleet and the signals over one client."""

from __future__ import annotations

from stores.client import Client
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
        self.turns = TurnStore(client, self.keys, limits, working=working, submitted=submitted)
        self.tasks = TaskStore(client, self.keys, limits)
        self.push = PushStore(client, self.keys, limits)
        self.fleet = FleetStore(client, self.keys, limits)
        self.signals = Signals(client)

    async def engine(self) -> dict[str, str]:
        """Which engine this is, and of which version."""
        info = await self.client.call("INFO", "server")
        if "valkey_version" in info:
            return {"engine": "valkey", "version": str(info["valkey_version"])}
        return {"engine": "redis", "version": str(info.get("redis_version", "unknown"))}

    async def ping(self) -> None:
        await self.client.call("PING")

    async def close(self) -> None:
        await self.signals.stop()
        await self.client.close()


def open_store(
    url: str, namespace: str, limits: Limits | None = None, *, working: str = "working", submitted: str = "submitted"
) -> Store:
    """A store on the Redis or Valkey at `url`; nothing is sent yet. Call it inside the running loop."""
    return Store(Client(url), namespace, limits or Limits(), working=working, submitted=submitted)
