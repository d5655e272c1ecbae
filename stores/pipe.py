"""The hot path's connection: one per worker, shared by all turns, pipelining by itself.

What one tick of the loop produces is written together, and replies are matched to their commands by order alone. Hence
the rules of this file:

- a caller that is cancelled does not take its place in the line with it: its reply is still read and dropped;
- a time-out or a reply nobody waits for closes the connection, and everything in flight has an unknown outcome (which
  every operation of ours can bear, since it can be repeated);
- nothing slow or large goes through here: whoever stands behind it would wait too.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any, cast

import hiredis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as AnswerLate

from stores.topology import Topology

# Above this many commands without an answer Redis does not keep up, and waiting longer in line helps nobody.
MAX_IN_FLIGHT = 10_000

# A connection whose other side is gone without a word is found after 15 s of silence and 3 unanswered probes. The
# kernel's own two hours would leave a worker deaf for as long.
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


def keepalive_options() -> dict[int, int]:
    """The socket options of this platform for it (macOS says KEEPALIVE where Linux says KEEPIDLE)."""
    return {getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)}


# After a connection that failed nobody tries another one for so long, growing and never the same for two workers: all
# turns of a worker wait for Redis together, and all workers do. Far below the second in which it must be found again.
FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


_ERRORS: dict[str, type[RedisError]] = {
    "NOSCRIPT": NoScriptError,
    "OOM": OutOfMemoryError,
    "READONLY": ReadOnlyError,
    "LOADING": BusyLoadingError,
    "NOAUTH": AuthenticationError,
    "WRONGPASS": AuthenticationError,
    "NOPERM": NoPermissionError,
}


def _reply_error(text: str) -> RedisError:
    code, _, rest = text.partition(" ")
    kind = _ERRORS.get(code, ResponseError)
    return kind(text if kind is ResponseError else rest)


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, answer_s: float) -> None:
        self._answer_s = answer_s
        self._reader = hiredis.Reader(encoding="utf-8", replyError=_reply_error)
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._full = False
        self._writable = asyncio.Event()
        self.lost = False
        self.heard = False
        self.lost_at = 0.0

    # --- what asyncio calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        demoted = False
        self.heard = True
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                future, _ = self._waiting.popleft()
                if future.done():
                    continue
                if isinstance(reply, RedisError):
                    future.set_exception(reply)
                    demoted = demoted or "READONLY" in str(reply) or isinstance(reply, ReadOnlyError)
                else:
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.close(ConnectionError(f"the replies of Redis can't be understood: {error}"))
        if demoted:
            # This server is a replica now; the next connection finds the primary.
            self.close(ConnectionError("the server at the other end is no primary any more"))

    def pause_writing(self) -> None:
        self._full = True
        self._writable.clear()

    def resume_writing(self) -> None:
        self._full = False
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.close(ConnectionError(f"the connection to Redis was lost: {error or 'closed by the server'}"))

    # --- what the pipe calls ---------------------------------------------------------------------------------

    def send(self, command: Sequence[str | int | bytes]) -> Awaitable[Any]:
        """Its answer, to be waited for."""
        return self._put_later(command) if self._full else self._put(command)

    async def _put_later(self, command: Sequence[str | int | bytes]) -> Any:
        try:
            async with asyncio.timeout(self._answer_s):
                await self._writable.wait()
        except TimeoutError as error:
            raise AnswerLate(f"Redis took nothing for {self._answer_s} s") from error
        return await self._put(command)

    def _put(self, command: Sequence[str | int | bytes]) -> asyncio.Future[Any]:
        if self.lost:
            raise ConnectionError("the connection to Redis was lost")
        if len(self._waiting) >= MAX_IN_FLIGHT:
            raise ConnectionError(f"{MAX_IN_FLIGHT} commands wait for Redis already")
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))  # type: ignore[arg-type]  # any length is meant
        self._waiting.append((future, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._answer_s, self._check)
        return future

    def close(self, error: RedisError) -> None:
        """Ends the connection; what is in flight has an unknown outcome."""
        if self.lost:
            return
        self.lost = True
        self.lost_at = self._loop.time()
        self.resume_writing()  # whoever waits is told
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self.lost:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _check(self) -> None:
        """One timer for all: the oldest command is the first to be late."""
        self._timer = None
        if not self._waiting:
            return
        left = self._waiting[0][1] + self._answer_s - self._loop.time()
        if left <= 0:
            self.close(AnswerLate(f"no answer within {self._answer_s} s"))
        else:
            self._timer = self._loop.call_later(left, self._check)


class Pipe:
    """A connection that is made when it is first needed, and made anew when it was lost."""

    def __init__(self, where: Topology, *, connect_s: float, answer_s: float) -> None:
        """`where` must be plain: TLS stays with the library's client."""
        self._where = where
        self._connect_s = connect_s
        self._answer_s = answer_s
        self._wire: _Wire | None = None
        self.connects = 0
        self._lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0

    def execute(self, *command: str | int | bytes) -> Awaitable[Any]:
        """Sends the command, at once where there is a connection; its answer is to be waited for."""
        wire = self._wire
        if wire is None or wire.lost:
            return self._connect_and_execute(command)
        return wire.send(command)

    async def _connect_and_execute(self, command: Sequence[str | int | bytes]) -> Any:
        wire = await self._connected()
        return await wire.send(command)

    def hurry(self) -> None:
        """Redis answers elsewhere: whoever comes next may try at once. A worker that says it is ready must be so."""
        self._not_before = 0.0
        if self._wire is not None and self._wire.lost:
            self._wire = None

    async def close(self) -> None:
        if self._wire is not None:
            self._wire.close(ConnectionError("this worker is closing"))
            # The transport closes in the loop's next round.
            await asyncio.sleep(0)

    async def _connected(self) -> _Wire:
        async with self._lock:
            if self._wire is not None:
                if not self._wire.lost:
                    return self._wire
                if self._wire.heard:
                    self._failures = 0
                else:
                    self._pause(self._wire.lost_at)  # it was taken and dropped: as good as refused
                self._wire = None
            if asyncio.get_running_loop().time() < self._not_before:
                raise ConnectionError("can't connect to Redis: the last try was just now")
            try:
                async with asyncio.timeout(self._connect_s):
                    self._wire = await self._open()
            except (OSError, TimeoutError) as error:
                self._pause(asyncio.get_running_loop().time())
                raise ConnectionError(f"can't connect to Redis: {str(error) or 'no answer'}") from error
            self.connects += 1
            return self._wire

    def _pause(self, since: float) -> None:
        longest = min(FIRST_PAUSE_SECONDS * 2**self._failures, LONGEST_PAUSE_SECONDS)
        self._failures = min(self._failures + 1, 16)
        self._not_before = since + longest * random.uniform(0.5, 1.0)

    async def _open(self) -> _Wire:
        loop = asyncio.get_running_loop()
        target = await self._where.target()
        wire = _Wire(self._answer_s)
        if "path" in target:
            await loop.create_unix_connection(lambda: wire, target["path"])
        else:
            transport, _ = await loop.create_connection(
                lambda: wire, target.get("host", "localhost"), target.get("port", 6379)
            )
            line = transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in keepalive_options().items():
                line.setsockopt(socket.IPPROTO_TCP, option, value)
        try:
            if target.get("password"):
                user = [target["username"]] if target.get("username") else []
                await wire.send(("AUTH", *user, target["password"]))
            if target.get("db"):
                await wire.send(("SELECT", target["db"]))
        except BaseException:
            wire.close(ConnectionError("the greeting failed"))
            raise
        return wire
