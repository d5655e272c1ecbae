"""The shared, pipelining connection: whose reply is whose, whatever happens to the callers and to the line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import AuthenticationError, ConnectionError, NoScriptError, ResponseError
from redis.exceptions import TimeoutError as AnswerLate

from stores.pipe import LONGEST_PAUSE_SECONDS, Pipe
from stores.topology import topology
from tests.support.engines import Engine, engine
from tests.support.wait import wait_found


@pytest.fixture
async def pipe(one_node: Engine) -> AsyncIterator[Pipe]:
    opened = Pipe(topology(one_node.url), connect_s=5.0, answer_s=10.0)
    yield opened
    await opened.close()


@asynccontextmanager
async def server(folder: Path, *answers: bytes) -> AsyncIterator[str]:
    """A server that gives these answers to each connection, one a read, and then stays silent."""
    done = asyncio.Event()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(4096)
            writer.write(answer)
        await done.wait()
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    path = folder / "fake.sock"
    listening = await asyncio.start_unix_server(accept, path)
    try:
        yield f"unix://{path}"
    finally:
        done.set()
        listening.close()
        await asyncio.gather(*serving)
        # Closed transports let go of their sockets in the loop's next rounds.
        for _ in range(3):
            await asyncio.sleep(0)


async def test_every_caller_gets_its_own_reply(pipe: Pipe) -> None:
    replies = await asyncio.gather(*[pipe.execute("ECHO", f"n{i}") for i in range(2000)])
    assert replies == [f"n{i}" for i in range(2000)]


async def test_a_cancelled_caller_does_not_shift_the_replies_of_the_others(pipe: Pipe) -> None:
    await pipe.execute("PING")
    calls = [asyncio.ensure_future(pipe.execute("ECHO", f"n{i}")) for i in range(50)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    kept = await asyncio.gather(*calls[1::2])
    assert kept == [f"n{i}" for i in range(1, 50, 2)]
    assert await pipe.execute("ECHO", "after") == "after"


async def test_an_error_reply_is_its_callers_alone(pipe: Pipe) -> None:
    replies = await asyncio.gather(
        pipe.execute("ECHO", "one"),
        pipe.execute("EVALSHA", "0" * 40, 0),
        pipe.execute("NONSENSE"),
        pipe.execute("ECHO", "two"),
        return_exceptions=True,
    )
    assert replies[0] == "one"
    assert isinstance(replies[1], NoScriptError)
    assert type(replies[2]) is ResponseError
    assert replies[3] == "two"


async def test_after_a_cut_what_was_in_flight_is_unknown_and_the_next_command_connects_anew(
    pipe: Pipe, one_node: Engine
) -> None:
    me = await pipe.execute("CLIENT", "ID")
    blocked = asyncio.ensure_future(pipe.execute("BLPOP", "nothing-comes", 0))
    other = Pipe(topology(one_node.url), connect_s=5.0, answer_s=10.0)
    assert await other.execute("CLIENT", "KILL", "ID", me) == 1
    await other.close()
    with pytest.raises(ConnectionError):
        await blocked
    assert await pipe.execute("ECHO", "again") == "again"
    assert await pipe.execute("CLIENT", "ID") != me


async def test_a_late_answer_closes_the_line_for_everyone_behind_it(tmp_path: Path) -> None:
    async with server(tmp_path, b"+PONG\r\n") as url:
        pipe = Pipe(topology(url), connect_s=5.0, answer_s=0.2)
        assert await pipe.execute("PING") == "PONG"
        late = await asyncio.gather(pipe.execute("PING"), pipe.execute("PING"), return_exceptions=True)
        assert [type(error) for error in late] == [AnswerLate, AnswerLate]
        await pipe.close()


async def test_a_reply_that_makes_no_sense_closes_the_line(tmp_path: Path) -> None:
    async with server(tmp_path, b"+PONG\r\n", b"?what\r\n") as url:
        pipe = Pipe(topology(url), connect_s=5.0, answer_s=5.0)
        await pipe.execute("PING")
        with pytest.raises(ConnectionError, match="can't be understood"):
            await pipe.execute("PING")
        assert await pipe.execute("PING") == "PONG", "a new line was made"
        await pipe.close()


async def test_a_reply_nobody_asked_for_closes_the_line(tmp_path: Path) -> None:
    async with server(tmp_path, b"+one\r\n+nobody asked\r\n") as url:
        pipe = Pipe(topology(url), connect_s=5.0, answer_s=5.0)
        assert await pipe.execute("PING") == "one"
        assert await pipe.execute("PING") == "one", "a new line was made: the stray reply went to nobody"
        await pipe.close()


async def test_nobody_there_is_said_at_once(tmp_path: Path) -> None:
    pipe = Pipe(topology(f"unix://{tmp_path}/none.sock"), connect_s=1.0, answer_s=1.0)
    with pytest.raises(ConnectionError, match="can't connect"):
        await pipe.execute("PING")
    await pipe.close()


async def test_however_many_wait_for_redis_few_connections_are_tried(tmp_path: Path) -> None:
    """A worker's turns lose Redis in the same moment, and so do all workers of a fleet."""
    tried: list[float] = []
    loop = asyncio.get_running_loop()

    def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tried.append(loop.time())
        writer.transport.abort()

    path = tmp_path / "dropping.sock"
    pipes = [Pipe(topology(f"unix://{path}"), connect_s=5.0, answer_s=5.0) for _ in range(2)]
    calls = 0

    async def insist(pipe: Pipe, until: float) -> None:
        nonlocal calls
        while loop.time() < until:
            calls += 1
            with pytest.raises(ConnectionError):
                await pipe.execute("PING")
            await asyncio.sleep(0.01)

    async with await asyncio.start_unix_server(drop, path):
        until = loop.time() + 2.0
        await asyncio.gather(*(insist(pipe, until) for pipe in pipes for _ in range(50)))
    assert len(tried) >= 2 * len(pipes), "it is tried again and again"
    assert len(tried) <= 20 * len(pipes), f"{len(tried)} connections for {calls} calls"
    for pipe in pipes:
        await pipe.close()


async def test_a_redis_that_is_back_is_found_within_a_second(tmp_path: Path) -> None:
    """The pauses between two tries have a bound, however long it was away."""
    pipe = Pipe(topology(f"unix://{tmp_path}/fake.sock"), connect_s=5.0, answer_s=5.0)
    loop = asyncio.get_running_loop()
    away = loop.time() + 3.0
    while loop.time() < away:
        with pytest.raises(ConnectionError):
            await pipe.execute("PING")
        await asyncio.sleep(0.01)
    assert pipe._not_before - loop.time() <= LONGEST_PAUSE_SECONDS
    async with server(tmp_path, b"+PONG\r\n"):

        async def found() -> bool:
            try:
                return bool(await pipe.execute("PING") == "PONG")
            except ConnectionError:
                return False

        await wait_found(found)
        await pipe.close()


async def test_the_greeting_carries_password_and_database() -> None:
    with engine("valkey", port=0, args=("--requirepass", "sesame")) as guarded:
        right = Pipe(topology(f"redis://:sesame@127.0.0.1:{guarded.port}/3"), connect_s=5.0, answer_s=5.0)
        wrong = Pipe(topology(f"redis://:open@127.0.0.1:{guarded.port}/3"), connect_s=5.0, answer_s=5.0)
        await right.execute("SET", "here", "1")
        assert "db=3" in await right.execute("CLIENT", "INFO")
        with pytest.raises(AuthenticationError):
            await wrong.execute("PING")
        await right.close()
        await wrong.close()
