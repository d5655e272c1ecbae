"""limit_requests: so many requests of a caller in any one second, wherever they arrive."""

from __future__ import annotations

import asyncio

from stores import Store
from stores.limits import WINDOW_MS, RequestLimit
from tests.contract.builders import CALLER, eventually, ttl

OTHER = "0" * 32


def limit(store: Store, per_second: int) -> RequestLimit:
    return RequestLimit(store.client, store.keys, per_second)


async def test_no_more_than_so_many_are_counted(store: Store) -> None:
    door = limit(store, 3)
    waits = [await door.limit_requests(CALLER) for _ in range(5)]
    assert waits[:3] == [0, 0, 0]
    assert all(0 < wait <= WINDOW_MS for wait in waits[3:])
    assert await door.limit_requests(OTHER) == 0
    assert 0 < await ttl(store, store.keys.rate(CALLER)) <= WINDOW_MS


async def test_it_is_exact_across_the_fleet(fleet: list[Store]) -> None:
    # Whatever the machine's load, all of them fall into few windows: a second's worth each.
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = await asyncio.gather(*(limit(fleet[n % 4], 10).limit_requests(CALLER) for n in range(100)))
    windows = 1 + int(loop.time() - began)
    assert 10 <= waits.count(0) <= 10 * windows


async def test_there_is_room_again_when_the_oldest_has_left_the_window(store: Store) -> None:
    door = limit(store, 1)
    assert await door.limit_requests(CALLER) == 0
    assert await door.limit_requests(CALLER) > 0

    async def counted() -> bool:
        return await door.limit_requests(CALLER) == 0

    await eventually(counted)


async def test_a_refused_request_is_not_counted(store: Store) -> None:
    door = limit(store, 2)
    for _ in range(20):
        await door.limit_requests(CALLER)
    assert await store.client.call("ZCARD", store.keys.rate(CALLER)) <= 2


async def test_a_repeated_call_is_counted_once(store: Store) -> None:
    door = limit(store, 2)
    assert [await door.limit_requests(CALLER, "same") for _ in range(5)] == [0] * 5
    assert await door.limit_requests(CALLER, "another") == 0
    assert await door.limit_requests(CALLER, "third") > 0
    assert await door.limit_requests(CALLER, "same") == 0
