"""Who is alive: heartbeats, presumption of death, and the lists of what each worker runs."""

from __future__ import annotations

from stores import scripts
from stores.client import Client
from stores.decode import word_of
from stores.errors import StoreCorrupt
from stores.keys import ContextRef, Keys
from stores.records import Beat, Limits, Reaped
from stores.scripts import Argument

_BEAT = scripts.load("beat_worker")
_REAP = scripts.load("reap_worker")
_LEAVE = scripts.load("leave_fleet")
_SETTLE = scripts.load("settle_hint")
_SETTLE_DELIVERY = scripts.load("settle_delivery")
_DROP = scripts.load("drop_ready")
_RELOAD = scripts.load("ask_reload")
_TAKE = scripts.load("take_namespace")

# The form of what is stored. A release that adds fields or members leaves it; one whose records older releases would
# misread raises it, and those then refuse to start in its namespaces.
SCHEMA = 3


class FleetStore:
    """The workers of one namespace."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits

    async def beat_worker(self, worker: str, info: str) -> Beat | Reaped:
        """Moves the worker's counter and tells it about the fleet."""
        keys = self._keys
        reply = await self._client.run(
            _BEAT,
            (
                keys.workers,
                keys.beat(worker),
                keys.turns(worker),
                keys.ready,
                keys.tombstone(worker),
                keys.generation,
                keys.deliveries(worker),
                keys.undelivered,
            ),
            {
                "worker": worker,
                "beat_ms": self._limits.beat_ms,
                "context_ms": self._limits.context_ms,
                "info": info,
                "prefix": keys.fleet,
            },
        )
        match word_of(reply):
            case "beating":
                counters = dict(zip(reply[1][::2], reply[1][1::2], strict=True))
                _, _, turns, ready, generation, deliveries, undelivered, wish = reply
                return Beat(
                    counters, tuple(turns), tuple(ready), generation, tuple(deliveries), tuple(undelivered), wish
                )
            case "reaped":
                return Reaped()
            case other:
                raise StoreCorrupt(f"beat_worker answered {other!r}")

    async def reap_worker(self, worker: str, count: str) -> tuple[str, ...] | None:
        """Declares the worker dead and brings back its turn list; None when it moved since it was looked at."""
        keys = self._keys
        reply = await self._client.run(
            _REAP,
            (keys.workers, keys.beat(worker), keys.turns(worker), keys.tombstone(worker), keys.deliveries(worker)),
            {"worker": worker, "count": count, "context_ms": self._limits.context_ms},
        )
        return tuple(reply[1]) if word_of(reply) == "reaped" else None

    async def settle_hint(self, worker: str, entry: str, *, taken: bool = True) -> None:
        """One turn of a dead worker's list needs nobody's attention any more; `taken`: somebody has it now."""
        keys = self._keys
        lists = (keys.workers, keys.turns(worker), keys.deliveries(worker))
        await self._client.run(_SETTLE, lists, {"worker": worker, "entry": entry})

    async def deliveries(self, worker: str) -> tuple[str, ...]:
        """The tasks whose callbacks a worker serves, or served when it died."""
        return tuple(await self._client.call("SMEMBERS", self._keys.deliveries(worker)))

    async def settle_delivery(self, worker: str, entry: str) -> None:
        """One delivery of a dead worker's list needs nobody's attention any more."""
        keys = self._keys
        lists = (keys.workers, keys.turns(worker), keys.deliveries(worker))
        await self._client.run(_SETTLE_DELIVERY, lists, {"worker": worker, "entry": entry})

    async def leave_fleet(self, worker: str) -> tuple[str, ...]:
        """Signs off; brings back the turns still stored as this worker's."""
        keys = self._keys
        reply = await self._client.run(
            _LEAVE,
            (keys.workers, keys.beat(worker), keys.turns(worker), keys.deliveries(worker)),
            {"worker": worker},
        )
        return tuple(reply[1])

    async def drop_ready(self, context: ContextRef) -> None:
        """A ready-hint was looked after; it stays where turns still wait for somebody."""
        keys = self._keys
        await self._client.run(_DROP, (keys.ready, keys.context(context), keys.queue(context)), {"ref": context.text})

    async def workers(self) -> dict[str, str]:
        """Every known incarnation and what it says of itself ('' when its beat lapsed)."""
        known = await self._client.call("ZRANGE", self._keys.workers, 0, -1)
        if not known:
            return {}
        infos = await self._client.batch([["HGET", self._keys.beat(worker), "info"] for worker in known])
        return {worker: info or "" for worker, info in zip(known, infos, strict=True)}

    async def schema(self) -> int:
        """The form of the records in this namespace; 0 where nothing says."""
        return int(await self._client.call("GET", self._keys.schema) or 0)

    async def take_namespace(self, version: int = SCHEMA) -> int:
        """Makes the records' form that of this release; where a newer one was here, its form, and nothing is done."""
        args: dict[str, Argument] = {"version": version, "context_ms": self._limits.context_ms}
        reply = await self._client.run(_TAKE, (self._keys.schema,), args)
        return int(reply[1]) if word_of(reply) == "newer" else version

    async def ask_reload(self, asked: str) -> None:
        """Asks every worker to load its assistant again; `asked` is a name for this wish, new each time."""
        args: dict[str, Argument] = {"asked": asked, "context_ms": self._limits.context_ms}
        await self._client.run(_RELOAD, (self._keys.generation,), args)
