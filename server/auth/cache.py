"""Tokens verified a moment ago, so that the signature of a busy caller is not checked again with each request."""

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

from server.auth.caller import Caller

MAX_TOKENS = 4096
# A key taken out of service must stop serving soon, so a verdict never lives as long as the token may.
MAX_AGE_SECONDS = 60.0


class VerifiedTokens:
    """A bounded map from a token's hash to its caller; the tokens themselves are not kept."""

    def __init__(
        self,
        size: int = MAX_TOKENS,
        max_age: float = MAX_AGE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._size = size
        self._max_age = max_age
        self._now = now
        self._entries: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    def get(self, token: str) -> Caller | None:
        """Return the caller of a token whose verdict still holds."""
        digest = _digest(token)
        entry = self._entries.get(digest)
        if entry is None:
            return None
        caller, until = entry
        # A verdict from the far future means that the clock was set back: check again.
        if not until - self._max_age <= self._now() < until:
            del self._entries[digest]
            return None
        self._entries.move_to_end(digest)
        return caller

    def put(self, token: str, caller: Caller, expires: float | None) -> None:
        """Remember a verdict, no longer than the token itself is valid."""
        until = self._now() + self._max_age
        if expires is not None:
            until = min(until, expires)
        self._entries[_digest(token)] = (caller, until)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)


def _digest(token: str) -> bytes:
    return blake2b(token.encode(), digest_size=32).digest()
