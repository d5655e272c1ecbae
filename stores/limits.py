"""How often a caller may ask: requests counted over the last second, for the whole fleet at once."""

from __future__ import annotations

import secrets

from stores import scripts
from stores.client import Client
from stores.decode import word_of
from stores.errors import StoreCorrupt
from stores.keys import Keys

_LIMIT = scripts.load("limit_requests")

WINDOW_MS = 1000


class RequestLimit:
    """At most `per_second` requests of a caller in any one second; each question is one round trip."""

    def __init__(self, client: Client, keys: Keys, per_second: int) -> None:
        self._client = client
        self._keys = keys
        self.per_second = per_second

    async def limit_requests(self, caller: str, token: str | None = None) -> int:
        """Counts a request; 0 when it may go on, else the milliseconds after which another one may be tried."""
        reply = await self._client.run(
            _LIMIT,
            (self._keys.rate(caller),),
            {"token": token or secrets.token_hex(8), "most": self.per_second, "window_ms": WINDOW_MS},
        )
        match word_of(reply):
            case "counted":
                return 0
            case "refused":
                return max(1, int(reply[1]))
            case other:
                raise StoreCorrupt(f"limit_requests answered {other!r}")
