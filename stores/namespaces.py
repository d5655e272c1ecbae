"""Which fleets share a store, for those who operate it."""

from __future__ import annotations

from stores.client import Client
from stores.keys import Keys

_MATCH = Keys("*").workers
_SUFFIX = Keys("").workers


async def namespaces(client: Client) -> tuple[str, ...]:
    """Every namespace whose workers were seen lately. Walks all keys in small steps: not for the way of a request."""
    found: set[str] = set()
    for node in await client.nodes():
        cursor = "0"
        while True:
            cursor, keys = await node.call("SCAN", cursor, "MATCH", _MATCH, "COUNT", 1000)
            found.update(str(key).removesuffix(_SUFFIX) for key in keys)
            if str(cursor) == "0":
                break
    return tuple(sorted(found))
