"""Handlers of a test server, waited for when it closes: before Python 3.12 the server itself does not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Handlers:
    """Runs one handler for each connection and knows which still run."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(10):
                    await self._handle(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            self._running.discard(task)

    async def finished(self) -> None:
        """Wait, for a bounded time, until every connection is closed."""
        async with asyncio.timeout(5):
            while self._running:  # noqa: ASYNC110 - the tasks belong to the server
                await asyncio.sleep(0.002)


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[int]:
    """Serve on a free port of loopback, which is given."""
    handlers = Handlers(handle)
    server = await asyncio.start_server(handlers, "127.0.0.1")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await handlers.finished()
