"""A bell: no ring is missed, a wait ends in time, and an earlier wait's timer does not end a later one."""

from __future__ import annotations

import asyncio
import time

from server.turns.bell import Bell


async def test_a_ring_before_the_wait_is_heard_once() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    assert await bell.wait(1)
    assert not await bell.wait(0.01)


async def test_a_ring_ends_the_wait() -> None:
    bell = Bell()
    asyncio.get_running_loop().call_later(0.01, bell.ring)
    assert await bell.wait(None)


async def test_each_wait_has_the_whole_time() -> None:
    bell = Bell()
    asyncio.get_running_loop().call_later(0.1, bell.ring)
    assert await bell.wait(0.2)
    began = time.monotonic()
    assert not await bell.wait(0.2)
    assert time.monotonic() - began >= 0.19


async def test_a_wait_that_is_cancelled_leaves_the_bell_as_it_was() -> None:
    bell = Bell()
    waiting = asyncio.create_task(bell.wait(0.05))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    await asyncio.sleep(0.06)
    bell.ring()
    assert await bell.wait(0.05)
