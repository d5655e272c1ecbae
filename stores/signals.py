"""The worker's one pub/sub connection: it wakes, it never carries truth (at most a copy of what was just written).

A lost message costs latency until the listener's next look, so every listener also looks by itself now and then; after
a lost connection all of them are woken at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import defaultdict
from collections.abc import Callable

from redis.exceptions import RedisError

from stores.client import Client

log = logging.getLogger(__name__)

Listener = Callable[[str], None]


class Signals:
    """Channels with counted listeners. A listener is called with the message, or with '' after a reconnect."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._listeners: dict[str, list[Listener]] = defaultdict(list)
        self._pubsub = client.listener()
        self._changed = asyncio.Event()
        self._confirmed: set[str] = set()
        # Channels of a lost connection: whoever listens looks again once the new one hears them, and not before, since
        # what happens between such a look and the subscription would wake nobody.
        self._missed: set[str] = set()
        self._waiting: dict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._task: asyncio.Task[None] | None = None
        self.reconnects = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="signals")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._close()

    async def listen(self, channel: str, listener: Listener, *, timeout: float = 2.0) -> bool:
        """Adds a listener and waits until Redis confirmed the channel; False when it has not within the time-out
        (then the listener still hears what comes later)."""
        self._listeners[channel].append(listener)
        if channel in self._confirmed:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[channel].append(waiter)
        self._changed.set()
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        return True

    def forget(self, channel: str, listener: Listener) -> None:
        """Removes a listener; the channel is left with its last one."""
        listeners = self._listeners.get(channel)
        if listeners is None or listener not in listeners:
            return
        listeners.remove(listener)
        if not listeners:
            del self._listeners[channel]
            self._changed.set()

    async def _run(self) -> None:
        delay = 0.05
        while True:
            try:
                await self._serve()
            # RuntimeError: what uvloop raises for a write to a connection that was closed meanwhile.
            except (RedisError, OSError, RuntimeError) as error:
                log.warning("a2a_server.signals.reconnect error=%s retry_in=%.2f", error, delay)
            delay = 0.05 if self._confirmed else min(delay * 2, 1.0)
            self._missed |= self._confirmed
            self._confirmed.clear()
            await self._close()
            # All workers lost theirs in the same moment; they need not all come back in the same.
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            self._pubsub = self._client.listener()
            self.reconnects += 1

    async def _serve(self) -> None:
        """Keeps the subscriptions equal to the listeners and hands messages out, until the connection breaks."""
        asked: set[str] = set()
        reader: asyncio.Task[None] | None = None
        try:
            while True:
                self._changed.clear()
                wanted = set(self._listeners)
                if new := wanted - asked:
                    await self._pubsub.subscribe(*new)
                if old := asked - wanted:
                    # Before the call: a listener that comes while it is under way must ask for the channel again.
                    self._confirmed -= old
                    self._missed -= old
                    await self._pubsub.unsubscribe(*old)
                asked = wanted
                if reader is None and asked:
                    reader = asyncio.create_task(self._read(), name="signals reader")
                changed = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait({changed, *([reader] if reader else [])}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if reader is not None and reader.done():
                    reader.result()
                    raise ConnectionResetError("the pub/sub connection ended")
        finally:
            if reader is not None:
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError, RedisError, OSError, RuntimeError):
                    await reader

    async def _read(self) -> None:
        while True:
            message = await self._pubsub.parse_response(block=True)
            if message is None:
                return
            kind, channel, payload = message[0], message[1], message[2]
            if kind == "subscribe":
                self._confirmed.add(channel)
                for waiter in self._waiting.pop(channel, []):
                    if not waiter.done():
                        waiter.set_result(None)
                if channel in self._missed:
                    self._missed.discard(channel)
                    self._tell(channel, "")
            elif kind == "message":
                self._tell(channel, payload)

    def _tell(self, channel: str, payload: str) -> None:
        for listener in list(self._listeners.get(channel, ())):
            listener(payload)

    async def _close(self) -> None:
        pubsub = self._pubsub
        with contextlib.suppress(RedisError, OSError, RuntimeError):
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await pubsub.connection_pool.aclose()
