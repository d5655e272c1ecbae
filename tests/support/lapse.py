"""Bounded memory, checked from outside: every key of an engine has a TTL; and what time does to the keys."""

from __future__ import annotations

from stores.client import Client
from stores.cluster import open_client

# One round trip for any number of keys: the check runs after every test.
_ENDLESS = """
local cursor, endless = '0', {}
repeat
  local found = redis.call('SCAN', cursor, 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    if redis.call('PTTL', key) == -1 then endless[#endless + 1] = key end
  end
until cursor == '0'
return endless
"""

# What so many milliseconds do to the keys of a namespace, without waiting for them.
_AGE = """
local cursor, gone = '0', 0
repeat
  local found = redis.call('SCAN', cursor, 'MATCH', ARGV[1] .. ':*', 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    local left = redis.call('PTTL', key) - tonumber(ARGV[2])
    if left > 0 then redis.call('PEXPIRE', key, left) else gone = gone + redis.call('DEL', key) end
  end
until cursor == '0'
return gone
"""


async def let_time_pass(url: str, namespace: str, seconds: float) -> int:
    """Makes every key of the namespace so much older; how many lapsed. Nobody may be at work there."""
    client = Client(url)
    try:
        return int(await client.call("EVAL", _AGE, 0, namespace, int(seconds * 1000)))
    finally:
        await client.close()


async def assert_all_keys_lapse(url: str) -> None:
    client = open_client(url)
    try:
        if client.apart:
            endless = await _endless_apart(client)
        else:
            endless = await client.call("EVAL", _ENDLESS, 0)
    finally:
        await client.close()
    assert not endless, f"keys without a TTL: {endless}"


async def _endless_apart(client: Client) -> list[str]:
    """The same of a Cluster, where a script may not look at keys of many slots."""
    endless: list[str] = []
    for node in await client.nodes():
        cursor = 0
        while True:
            cursor, keys = await node.call("SCAN", cursor, "COUNT", 1000)
            ttls = await node.batch([["PTTL", key] for key in keys]) if keys else []
            endless += [key for key, ttl in zip(keys, ttls, strict=True) if ttl == -1]
            if int(cursor) == 0:
                break
    return endless
