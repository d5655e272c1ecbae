"""Bounded memory, checked from outside: every key of an engine has a TTL."""

from __future__ import annotations

from stores.client import Client

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


async def assert_all_keys_lapse(url: str) -> None:
    client = Client(url)
    try:
        endless = await client.call("EVAL", _ENDLESS, 0)
    finally:
        await client.close()
    assert not endless, f"keys without a TTL: {endless}"
