"""A TCP proxy before an engine that does to connections what networks and failing servers do."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import hiredis

CHUNK = 65536


@dataclass(eq=False)
class _Link:
    """One connection through the proxy: its two writers, whether its bytes vanish, and what is not answered yet."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    deaf: bool = False
    unanswered: int = 0

    def abort(self) -> None:
        for writer in (self.client, self.server):
            if writer is not None:
                writer.transport.abort()


class FaultProxy:
    """Runs in a thread of its own, so that a test that blocks does not look like a network that does."""

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: clients speak it to the proxy, which speaks plainly to the engine."""
        self._target = target
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._away = False
        self._error = b""
        self._lose = 0
        self.latency = 0.0
        """Seconds each piece of data takes in each direction."""
        self.knocks = 0
        """Connections that were made while it was away."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    # --- faults; each can be called from any thread ------------------------------------------------------------

    def cut(self) -> None:
        """Every connection is reset; new ones are served."""
        self._call(self._cut)

    def go_away(self) -> None:
        """Every connection is reset, and new ones are, too, until `come_back`."""
        self._away = True
        self.cut()

    def come_back(self) -> None:
        self._away, self._error, self._lose, self.latency = False, b"", 0, 0.0

    def half_open(self) -> None:
        """What is sent over the connections there are vanishes, and nobody is told; new ones are served."""

        def deafen() -> None:
            for link in self._links:
                link.deaf = True

        self._call(deafen)

    def lose_replies(self, count: int) -> None:
        """The next so many replies are lost with their connection: the command was executed, its caller can't know."""
        self._lose = count

    def answer(self, error: str) -> None:
        """Every command is answered with this error instead of being passed on, until `come_back`."""
        self._error = f"-{error}\r\n".encode()

    # --- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10), "the proxy hangs"

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        self._cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cut(self) -> None:
        for link in self._links:
            link.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = _Link(writer)
        self._links.add(link)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(link, reader)
        finally:
            link.abort()
            self._links.discard(link)
            self._tasks.discard(task)

    async def _serve(self, link: _Link, reader: asyncio.StreamReader) -> None:
        if self._away:
            self.knocks += 1
            return
        from_server, link.server = await asyncio.open_connection("127.0.0.1", self._target)
        ways = {
            asyncio.ensure_future(self._forth(link, reader)),
            asyncio.ensure_future(self._back(link, from_server)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forth(self, link: _Link, reader: asyncio.StreamReader) -> None:
        assert link.server is not None
        commands = hiredis.Reader()
        while data := await reader.read(CHUNK):
            await asyncio.sleep(self.latency)
            if link.deaf:
                continue
            commands.feed(data)
            count = sum(1 for _ in iter(commands.gets, False))
            if self._error:
                await self._until_answered(link)
                link.client.write(self._error * count)
            else:
                link.unanswered += count
                link.server.write(data)

    async def _until_answered(self, link: _Link) -> None:
        """Replies have an order: ours may not overtake the server's. Only one that waits for news can be without."""
        for _ in range(200):
            if not link.unanswered:
                return
            await asyncio.sleep(0.005)

    async def _back(self, link: _Link, reader: asyncio.StreamReader) -> None:
        replies = hiredis.Reader()
        while data := await reader.read(CHUNK):
            await asyncio.sleep(self.latency)
            if link.deaf:
                continue
            if self._lose > 0:
                self._lose -= 1
                return
            replies.feed(data)
            while replies.gets() is not False:
                link.unanswered = max(0, link.unanswered - 1)
            link.client.write(data)


@contextmanager
def fault_proxy(target: int, tls: ssl.SSLContext | None = None) -> Iterator[FaultProxy]:
    """A running proxy to this loopback port."""
    proxy = FaultProxy(target, tls)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
