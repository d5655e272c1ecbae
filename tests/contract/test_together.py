"""Calls at the same time: the order of their replies, and what becomes of the others when one fails."""

from __future__ import annotations

import asyncio

import pytest

from stores.together import all_ended


async def test_replies_come_in_the_order_of_the_calls() -> None:
    assert await all_ended(asyncio.sleep(0.01, "first"), asyncio.sleep(0, "second")) == ("first", "second")
    assert await all_ended() == ()


async def test_an_error_is_told_when_the_others_have_ended() -> None:
    gate = asyncio.Event()
    ended: list[str] = []

    async def failing() -> None:
        raise LookupError

    async def slow() -> None:
        await gate.wait()
        ended.append("slow")

    waiting = asyncio.create_task(all_ended(failing(), slow(), slow()))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    gate.set()
    with pytest.raises(LookupError):
        await waiting
    assert ended == ["slow", "slow"]


async def test_a_cancel_ends_them_all() -> None:
    ended: list[str] = []

    async def endless(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    waiting = asyncio.create_task(all_ended(endless("one"), endless("two")))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert sorted(ended) == ["one", "two"]
