"""One attempt to tell a callback something, and what its answer means for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from server.push.connect import CallbackClient
from server.push.errors import CallbackRefused, DeliveryFailed
from server.push.signing import Signer

# A receiver that says one of these means "not now"; any other 4xx it would say again.
_PASSING = frozenset({408, 425, 429})
# The share of all connections that one host may hold, so that a slow one leaves room for the others.
HOST_SHARE = 4


@dataclass(frozen=True, slots=True)
class Tried:
    """`said` is a status or one word, for logs and the dead letter; it repeats nothing of the receiver's text."""

    verdict: Literal["delivered", "later", "never"]
    said: str
    asked_s: float | None = None


class Lanes:
    """Bounds the POSTs under way, of one worker and towards one host."""

    def __init__(self, width: int) -> None:
        self._all = asyncio.Semaphore(width)
        self._host_width = max(1, width // HOST_SHARE)
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def lane(self, host: str) -> AsyncIterator[None]:
        """Waits for a place: first among those of the host, so that its queue holds up nobody else."""
        own, users = self._hosts.get(host) or (asyncio.Semaphore(self._host_width), 0)
        self._hosts[host] = own, users + 1
        try:
            async with own, self._all:
                yield
        finally:
            own, users = self._hosts[host]
            if users > 1:
                self._hosts[host] = own, users - 1
            else:
                del self._hosts[host]


class Poster:
    """Signs and posts."""

    def __init__(self, client: CallbackClient, signer: Signer | None, lanes: Lanes) -> None:
        self._client = client
        self._signer = signer
        self._lanes = lanes
        self._under_way = 0
        self._ending = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def wind_down(self, seconds: float) -> None:
        """Begins no POST any more, and waits for those under way, at most so long."""
        self._ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def post(self, url: str, message_id: str, body: bytes, headers: dict[str, str]) -> Tried:
        async with self._lanes.lane(host_of(url)):
            if self._ending:
                # Whoever waits here is cancelled with its worker, and another worker goes on from its cursor.
                await asyncio.get_running_loop().create_future()
            self._under_way += 1
            self._idle.clear()
            try:
                return await self._post(url, message_id, body, headers)
            finally:
                self._under_way -= 1
                if not self._under_way:
                    self._idle.set()

    async def _post(self, url: str, message_id: str, body: bytes, headers: dict[str, str]) -> Tried:
        now = int(time.time())
        # Without a key there is nothing to verify, but repeats can be told all the same.
        own = {"webhook-id": message_id, "webhook-timestamp": str(now)}
        if self._signer is not None:
            own = self._signer.headers(message_id, now, body)
        try:
            answer = await self._client.post(url, body, {**headers, **own})
        except CallbackRefused as refusal:
            return Tried("later" if refusal.retriable else "never", refusal.reason)
        except DeliveryFailed as failure:
            return Tried("later", failure.reason)
        if answer.acknowledged:
            return Tried("delivered", str(answer.status))
        # A redirect is an answer that no repeat changes: it is not followed, so that nobody sends us elsewhere.
        never = 300 <= answer.status < 500 and answer.status not in _PASSING
        return Tried("never" if never else "later", str(answer.status), _seconds(answer.retry_after))


def host_of(url: str) -> str:
    """The host alone: paths and queries carry secrets."""
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


def _seconds(wish: str | None) -> float | None:
    """A Retry-After in either of its forms, as seconds from now."""
    if not wish:
        return None
    if wish.strip().isdecimal():
        return float(min(int(wish.strip()[:10]), 86400))
    try:
        return max(0.0, parsedate_to_datetime(wish).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
