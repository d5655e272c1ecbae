"""Calls at the same time, of which none outlives the wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

First = TypeVar("First")
Second = TypeVar("Second")


@overload
async def all_ended(first: Awaitable[First], second: Awaitable[Second], /) -> tuple[First, Second]: ...


@overload
async def all_ended(*calls: Awaitable[First]) -> tuple[First, ...]: ...


async def all_ended(*calls: Awaitable[Any]) -> tuple[Any, ...]:
    """The replies in the order of the calls, or the first call's error, once every call has ended.

    `asyncio.gather` alone leaves the others at work when one fails, and nobody owns them any more: such a call meets
    a client that is being closed, takes that for a lost connection, and makes a new one that nobody closes.
    """
    replies = await asyncio.gather(*calls, return_exceptions=True)
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return tuple(replies)
