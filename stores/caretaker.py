"""Who does what contexts of a Cluster owe to other slots: each worker after its steps, and the sweep for the dead."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any

from stores.client import Client
from stores.errors import StoreError
from stores.keys import ContextRef, Keys, TurnRef
from stores.places import Places, Settled
from stores.records import Limits
from stores.together import all_ended

log = logging.getLogger(__name__)

# How often somebody looks again because others did something meanwhile.
ROUNDS = 8
# What one sweep looks after at the same time.
SWEEPERS = 8


class Errands:
    """Work that nobody waits for, owned until it is done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed = 0

    def run(self, errand: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._done(errand))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _done(self, errand: Coroutine[Any, Any, None]) -> None:
        try:
            await errand
        except StoreError as error:
            # It stays owed, and the sweep finds it.
            self.failed += 1
            log.warning("a2a_server.store.errand_failed error=%s", error)

    @property
    def pending(self) -> int:
        return len(self._tasks)

    async def settled(self, seconds: float) -> None:
        """Waits for what is under way now, at most so long; what others begin meanwhile is not waited for."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    async def close(self) -> None:
        await self.settled(3.0)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


class Caretaker:
    """Makes what other slots know of contexts what their own say."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self.places = Places(client, keys, limits)

    async def settle(self, context: ContextRef, dues: Sequence[tuple[str, str]], *, rests: bool) -> None:
        """Does what a step owes to other slots; where the context rests, says so and gives back what is free."""
        await self._pay(context, dues)
        if not rests:
            return
        for _ in range(ROUNDS):
            found = await self.places.settle_apart(context, dues)
            if not found.owed:
                await self._release(context, found)
                return
            dues = found.owed
            await self._pay(context, dues)

    async def _pay(self, context: ContextRef, dues: Sequence[tuple[str, str]]) -> None:
        listings = [(field[2:], value) for field, value in dues if field.startswith("t:")]
        hints = [("u", field[2:]) for field, _ in dues if field.startswith("u:")]
        hints += [("r", context.text) for field, _ in dues if field == "r"]
        payments: list[Coroutine[Any, Any, None]] = []
        if listings:
            payments.append(self.places.index_tasks(context.caller, listings))
        if hints:
            payments.append(self.places.leave_hints(*hints))
        await all_ended(*payments)

    async def _release(self, context: ContextRef, found: Settled) -> None:
        if found.word in ("free", "idle"):
            await self.places.release_place(context, found)

    async def sweep(self, *, age_ms: int | None = None) -> int:
        """Looks after some contexts with a place: does what they owe, gives back what nothing keeps, and puts a running
        turn on its worker's roster and a waiting queue among the hints where a failover lost them. How many it saw."""
        found = await (self.places.sweep_places() if age_ms is None else self.places.sweep_places(age_ms=age_ms))
        if not found:
            return 0
        rosters = _Rosters(self._client, self._keys)
        gate = asyncio.Semaphore(SWEEPERS)

        async def one(context: ContextRef, stamp: str) -> None:
            async with gate:
                await self._look_after(context, stamp, rosters)

        await all_ended(*[one(context, stamp) for context, stamp in found])
        return len(found)

    async def repair(self, context: ContextRef) -> Settled:
        """Makes what other slots know of a context what its own says."""
        found = await self._look_after(context, "", _Rosters(self._client, self._keys))
        if found.word != "free":
            await self.places.reserve_place(context, limited=False)
        return found

    async def turns_of(self, worker: str) -> set[ContextRef]:
        """The contexts on a worker's roster."""
        return await _Rosters(self._client, self._keys).contexts(worker)

    async def _look_after(self, context: ContextRef, stamp: str, rosters: _Rosters) -> Settled:
        own = await self.places.own_stamp(context) if self.places.limits_callers else ""
        found = await self.places.settle_apart(context, seen=stamp, own_seen=own)
        for _ in range(ROUNDS):
            if not found.owed:
                break
            await self._pay(context, found.owed)
            found = await self.places.settle_apart(context, found.owed, seen=stamp, own_seen=own)
        await self._release(context, found)
        if found.running and context not in await rosters.contexts(found.owner):
            await self.places.move_roster(found.owner, ("+", roster_entry(context, found.running)))
        if found.waits:
            await self.places.leave_hints(("r", context.text))
        return found


class _Rosters:
    """Which contexts are on the rosters, read once for each worker."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._known: dict[str, asyncio.Task[set[ContextRef]]] = {}

    async def contexts(self, worker: str) -> set[ContextRef]:
        if worker not in self._known:
            self._known[worker] = asyncio.create_task(self._read(worker))
        return await self._known[worker]

    async def _read(self, worker: str) -> set[ContextRef]:
        entries = await self._client.call("SMEMBERS", self._keys.turns(worker))
        listed = await self._client.call("ZSCORE", self._keys.workers, worker)
        return {TurnRef.parse(entry).context for entry in entries} if listed is not None else set()


def roster_entry(context: ContextRef, task_id: str) -> str:
    """A roster's entry, each of its own: to remove one never takes away what another admission put there."""
    return f"{TurnRef(context, task_id).text}:{secrets.token_hex(4)}"
