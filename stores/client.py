"""The one place that opens connections and sends commands, with named time-outs and retries."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MaxConnectionsError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from stores.errors import StoreCorrupt, StoreDenied, StoreFull, StoreUnavailable
from stores.meter import Meter
from stores.pipe import Pipe, keepalive_options
from stores.scripts import Argument, Script
from stores.together import all_ended
from stores.topology import topology

CONNECT_SECONDS = 2.0
# One command's answer. Above any script of ours by far; below a client's default read time-out of 5 s, so that the
# caller gets our 503 and not its own time-out.
ANSWER_SECONDS = 3.0
# Named, never inherited: redis-py's default would run a slow script up to ten times. Every operation can be repeated,
# so one more try after a broken connection is safe, and hides a failover's cut from most callers.
RETRIES = 1
POOL_SIZE = 64
CLOSED = "the handler is closed"
# Codes of a server that could not write or answer just now, and may on the next try.
_PASSING = re.compile(
    r"\b(BUSY|LOADING|MASTERDOWN|CLUSTERDOWN|READONLY|MISCONF|NOREPLICAS|TRYAGAIN|max number of clients)\b"
)


class Client:
    """Commands and scripts on one Redis or Valkey."""

    apart = False
    """Whether keys with different hash tags may be on different nodes, as on a Cluster."""

    def __init__(self, url: str, meter: Meter | None = None) -> None:
        """`meter`: who counts the calls of several clients together."""
        self.url = url
        self.meter = meter or Meter()
        self._where = topology(url)
        retry = self.meter.retry(ExponentialWithJitterBackoff(base=0.02, cap=0.2), RETRIES)
        pool = self._where.pool(
            blocking=True,
            max_connections=POOL_SIZE,
            timeout=ANSWER_SECONDS,
            decode_responses=True,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            health_check_interval=0,
            retry=retry,
            retry_on_error=[ConnectionError],
            **_keepalive(),
        )
        self._redis = redis.Redis(connection_pool=pool)
        self._execute = _heeding_cancel(self._redis.execute_command)
        self._pipe: Pipe | None = None
        if self._where.plain:
            self._pipe = Pipe(self._where, connect_s=CONNECT_SECONDS, answer_s=ANSWER_SECONDS)

    async def run(
        self, script: Script, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()
    ) -> Any:
        """Runs an operation's script, sending its text where this server has not seen it yet."""
        return await self._run(self._execute, script, script.bind(keys, args, rest))

    async def run_hot(
        self, script: Script, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()
    ) -> Any:
        """The same for the steps of a turn, which are small and many: through the shared, pipelining connection."""
        bound = script.bind(keys, args, rest)
        if self._pipe is None:
            return await self._run(self._execute, script, bound)
        try:
            return await self._run(self._pipe.execute, script, bound)
        except StoreUnavailable as error:
            # As the pool does: a lost connection leaves the outcome unknown, and every operation can be repeated.
            if not isinstance(error.__cause__, ConnectionError):
                raise
            await asyncio.sleep(random.uniform(0.01, 0.05))
            return await self._run(self._pipe.execute, script, bound)

    async def _run(self, execute: Callable[..., Awaitable[Any]], script: Script, bound: list[Argument]) -> Any:
        began = perf_counter()
        try:
            try:
                return await execute("EVALSHA", script.sha, *bound)
            except NoScriptError:
                return await execute("EVAL", script.body, *bound)
        except RedisError as error:
            raise self._fault(error, script) from error
        finally:
            self.meter.took(script.name, perf_counter() - began)

    async def call(self, *command: Argument) -> Any:
        """One plain command."""
        began = perf_counter()
        try:
            reply = await self._execute(*command)
            if self._pipe is not None:
                self._pipe.hurry()
            return reply
        except RedisError as error:
            raise self._fault(error) from error
        finally:
            self.meter.took(str(command[0]).lower(), perf_counter() - began)

    async def batch(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Several plain commands in one round trip, not atomic."""
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        began = perf_counter()
        try:
            return list(await _heeding_cancel(pipeline.execute)())
        except RedisError as error:
            raise self._fault(error) from error
        finally:
            self.meter.took("batch", perf_counter() - began)

    async def run_batch(
        self, script: Script, calls: Sequence[tuple[Sequence[str], Mapping[str, Argument]]]
    ) -> list[Any]:
        """One script for many keys in one round trip; the script is loaded first where the server lacks it."""
        commands = [["EVALSHA", script.sha, *script.bind(keys, args)] for keys, args in calls]
        try:
            return await self.batch(commands)
        except StoreCorrupt as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
            await self.call("SCRIPT", "LOAD", script.body)
            return await self.batch(commands)

    async def nodes(self) -> Sequence[Client]:
        """Every primary there is, as a client of its own."""
        return [self]

    async def ping(self) -> None:
        """Whether every primary answers."""
        await all_ended(*[node.call("PING") for node in await self.nodes()])

    @property
    def connects(self) -> int:
        """How often the shared connection was made."""
        return self._pipe.connects if self._pipe is not None else 0

    def _fault(self, error: RedisError, script: Script | None = None) -> Exception:
        fault = translate(error, script)
        if not isinstance(error, NoScriptError):
            self.meter.failed(error)
        return fault

    def listener(self) -> redis.client.PubSub:
        """A pub/sub connection of its own: no time-out on reading, because silence is its normal state."""
        pool = self._where.pool(
            blocking=False,
            max_connections=1,
            decode_responses=True,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=None,
            retry=Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.2), 0),
            **_keepalive(),
        )
        return redis.Redis(connection_pool=pool).pubsub(ignore_subscribe_messages=False)

    async def rest(self) -> None:
        """Closes the connections that nobody uses now; the next call makes one again."""
        with suppress(TimeoutError):  # a TLS peer that is gone says no good-bye; the connection is dropped all the same
            await self._redis.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        if self._pipe is not None:
            await self._pipe.close()
        await self._redis.aclose()
        await self._redis.connection_pool.aclose()
        await self._where.close()


def _heeding_cancel(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A call of the library that never swallows a cancel. It waits with `asyncio.wait_for`, which on Python 3.11
    returns as if nothing had happened when what it waits for ends in the same moment; whoever cancelled us would wait
    for ever.
    """

    async def heeding(*args: Any) -> Any:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return await call(*args)
        except RuntimeError as error:
            # uvloop's word for a write to a connection that was closed meanwhile; asyncio's own loop has none, and the
            # library knows only that one.
            if CLOSED not in str(error):
                raise
            raise ConnectionError(f"the connection was closed: {error}") from error
        finally:
            if task is not None and task.cancelling() > before:
                raise asyncio.CancelledError

    return heeding


def _keepalive() -> dict[str, Any]:
    """TCP keep-alive finds half-open connections within half a minute."""
    return {"socket_keepalive": True, "socket_keepalive_options": keepalive_options()}


def translate(error: RedisError, script: Script | None = None) -> Exception:
    """Our error for one of the client library's."""
    text = script.explain(str(error)) if script else str(error)
    match error:
        case OutOfMemoryError():
            return StoreFull(f"Redis has no memory left for a write: {text}")
        case AuthenticationError() | NoPermissionError():
            return StoreDenied(f"Redis refuses this user: {text}")
        case BusyLoadingError() | ReadOnlyError() | ConnectionError() | TimeoutError() | MaxConnectionsError():
            return StoreUnavailable(f"Redis did not answer: {text}")
        case ResponseError() if "NOPERM" in text or "NOAUTH" in text:
            return StoreDenied(f"Redis refuses this user: {text}")
        # Inside a script the code is not at the beginning, and the library can't make a class of it.
        case ResponseError() if isinstance(error, ClusterDownError) or _PASSING.search(text):
            return StoreUnavailable(f"Redis can't answer now: {text}")
        case ResponseError() if "OOM" in text:
            return StoreFull(f"Redis has no memory left for a write: {text}")
        case _:
            return StoreCorrupt(text)


def redacted(url: str) -> str:
    """The URL without its password, for logs and people."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:***@{host}"))


async def wait_ready(client: Client, seconds: float) -> None:
    """Waits until Redis answers, at most so long."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            await client.ping()
            return
        except StoreDenied:
            raise  # at a start this is a wrong password, and waiting would only hide it
        except StoreUnavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)
