"""The frames of a stream between those who make them and a reader who is slow."""

from __future__ import annotations

import asyncio

from server.protocol.model import State, Status, StatusUpdate
from server.transport.sse import MOST_READY, Frames, Framing
from server.turns.watch import Stream, Streamed
from tests.support.wait import wait_until

EVENTS = 5 * MOST_READY


async def test_a_slow_reader_holds_back_its_frames_and_misses_none() -> None:
    made: list[int] = []

    async def items() -> Stream:
        for number in range(1, EVENTS + 1):
            made.append(number)
            yield Streamed((1, number), StatusUpdate("t", "c", Status(State.WORKING, number)), number == EVENTS)

    framing = Framing(lambda seen: seen.item.status.at_ms, lambda error: {}, ids=False, named_errors=False)  # type: ignore[union-attr]
    frames = Frames(items(), framing)
    body = b""
    try:
        await frames.wait(20)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(made) == MOST_READY
        while not (frames.ended and not frames.ready):
            body += frames.take()
            await wait_until(lambda: frames.ready or frames.ended)
    finally:
        await frames.close()
    assert body == b"".join(b"data: %d\n\n" % number for number in range(1, EVENTS + 1))
