"""What happens to the fleet while it works, in an order that the seed decides."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter

from server.chaos.fleet import ChaosFleet, Worker
from stores.client import Client
from stores.errors import StoreError

KINDS = ("kill", "freeze", "doze", "drain", "engine", "cut", "deafen")


class Faults:
    """One fault at a time. At least one worker is left alone by each, and everything is mended in the end."""

    def __init__(self, fleet: ChaosFleet, client: Client, rng: random.Random, kinds: tuple[str, ...], dead_s: float):
        self._fleet = fleet
        self._client = client
        self._rng = rng
        self._kinds = kinds
        self._dead_s = dead_s
        self.done: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            # Each kind once before any comes again, so that a short run has them all.
            for kind in self._rng.sample(self._kinds, len(self._kinds)):
                await _sleep(stop, self._rng.uniform(0.2, 0.8))
                if stop.is_set():
                    return
                await getattr(self, f"_{kind}")(self._rng.choice(self._fleet.workers))
                self.done[kind] += 1

    async def _kill(self, victim: Worker) -> None:
        victim.kill()
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        victim.start()

    async def _freeze(self, victim: Worker) -> None:
        """Past its death: the others take its turns over, then it wakes up and knows nothing of it."""
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(self._dead_s * self._rng.uniform(1.8, 2.5))
        victim.signal(signal.SIGCONT)

    async def _doze(self, victim: Worker) -> None:
        """Not long enough to be missed."""
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(self._dead_s * self._rng.uniform(0.1, 0.5))
        victim.signal(signal.SIGCONT)

    async def _drain(self, victim: Worker) -> None:
        await victim.end()
        victim.kill()
        victim.start()

    async def _engine(self, _: Worker) -> None:
        self._fleet.engine.kill()
        await asyncio.sleep(self._rng.uniform(0, 1.5))
        self._fleet.engine.start()

    async def _cut(self, _: Worker) -> None:
        await self._close_connections("normal")

    async def _deafen(self, _: Worker) -> None:
        await self._close_connections("pubsub")

    async def _close_connections(self, kind: str) -> None:
        try:
            await self._client.call("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        except StoreError:
            self.done["missed"] += 1  # the engine is just loading


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
