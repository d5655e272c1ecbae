"""Bounded waiting for something that another task, thread or process does."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tests.support.client import Item, Speaker

Found = TypeVar("Found")

PAUSE_SECONDS = 0.01
# Far beyond what is needed: a machine with two slow cores that does other things as well must not fail a test.
BOUND_SECONDS = 20.0


async def wait_until(
    predicate: Callable[[], object], *, seconds: float = BOUND_SECONDS, what: str = "the condition"
) -> None:
    """Until the predicate is true, at most so long."""

    async def asked() -> object:
        return predicate()

    await wait_found(asked, seconds=seconds, what=what)


async def wait_found(
    look: Callable[[], Awaitable[Found | None]], *, seconds: float = BOUND_SECONDS, what: str = "the condition"
) -> Found:
    """What the look found as soon as it found something, at most so long."""
    deadline = time.monotonic() + seconds
    while True:
        found = await look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds} s (last seen: {found!r})")
        await asyncio.sleep(PAUSE_SECONDS)


async def wait_for_state(
    speakers: Sequence[Speaker], task_id: str, state: str, *, seconds: float = BOUND_SECONDS
) -> Item:
    """Looks at the task on one server after the other until it has the state."""
    turns = itertools.cycle(speakers)

    async def look() -> Item | None:
        seen = (await next(turns).get(task_id)).task
        return seen if seen.state == state else None

    return await wait_found(look, seconds=seconds, what=f"task {task_id} {state}")
