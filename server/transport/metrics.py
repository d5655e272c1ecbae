"""The page of metrics: at `/metrics` for callers, or for anyone who reaches a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.observe import metrics
from server.observe.board import Board, Sample
from server.protocol.errors import A2AError
from server.transport.calls import Calls
from server.transport.rest import refusal
from stores import Store
from stores.admin import AdminStore
from stores.errors import StoreError

log = logging.getLogger(__name__)

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A scraper's request is a few lines; whoever takes longer, or sends more, is none.
READ_SECONDS = 5.0
READ_BYTES = 16_384


class MetricsPage:
    """Makes the page: this replica's numbers, and the fleet's from the store."""

    def __init__(self, board: Board, store: Store, release: str) -> None:
        self._board = board
        self._admin = AdminStore(store.client, store.keys, store.limits)
        self._store = store
        self._release = release

    async def text(self) -> str:
        extra: dict[str, list[Sample]] = {metrics.BUILD: [("", {"version": self._release}, 1)]}
        try:
            counts = await self._admin.counts()
        except StoreError:
            extra[metrics.STORE_UP] = [("", {}, 0)]
        else:
            extra[metrics.STORE_UP] = [("", {}, 1)]
            of_fleet = (counts.live, self._store.limits.max_contexts, counts.workers)
            values = (*of_fleet, counts.letters, counts.undelivered, counts.ready)
            extra |= {name: [("", {}, value)] for name, value in zip(metrics.FLEET, values, strict=True)}
        return self._board.page(extra)

    def route(self, calls: Calls) -> Route:
        """The page behind the same door as everything else."""

        async def show(request: Request) -> Response:
            try:
                await calls.caller(request.scope["headers"])
                return Response(await self.text(), media_type=None, headers={"Content-Type": CONTENT_TYPE})
            except A2AError as error:
                return refusal(error)

        return Route(PATH, show)


class Observing:
    """The page with its board and its door, for one worker's lifetime."""

    def __init__(
        self, board: Board, store: Store, release: str, *, enabled: bool, own_port: tuple[str, int] | None
    ) -> None:
        self._board = board
        self._store = store
        self._page = MetricsPage(board, store, release)
        self._enabled = enabled
        self._door = OwnPort(*own_port, self._page.text) if enabled and own_port is not None else None
        self.port = 0
        """Where the page's own port is, if it has one."""

    def routes(self, calls: Calls) -> list[Route]:
        return [self._page.route(calls)] if self._enabled and self._door is None else []

    async def start(self) -> None:
        if not self._enabled:
            return
        self._board.before_publishing = self._count_store
        self._board.start()
        if self._door is not None:
            self.port = await self._door.start()

    async def stop(self) -> None:
        if not self._enabled:
            return
        if self._door is not None:
            await self._door.stop()
        await self._board.stop()

    def _count_store(self) -> None:
        """The store counts for itself, since it knows nothing of us."""
        meter = self._store.client.meter
        for operation, row in meter.rows.items():
            metrics.STORE_SECONDS.set(row, operation)
        for kind, count in meter.faults.items():
            metrics.STORE_FAULTS.set(count, kind)
        metrics.RECONNECTS.set(max(0, self._store.client.connects - 1), "commands")
        metrics.RECONNECTS.set(meter.repeats, "pool")
        metrics.RECONNECTS.set(self._store.signals.reconnects, "signals")


class OwnPort:
    """A listener for the page alone. All workers of a replica listen on the same port; any of them answers for all."""

    def __init__(self, interface: str, port: int, text: Callable[[], Awaitable[str]]) -> None:
        self._address = (interface, port)
        self._text = text
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """The port that was taken, which is only news for 0."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(self._address)
            self._server = await asyncio.start_server(self._serve, sock=listener, limit=READ_BYTES)
        except BaseException:
            listener.close()
            raise
        port: int = listener.getsockname()[1]
        return port

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                verb, _, rest = head.decode("latin-1").partition(" ")
                path = rest.split(" ")[0].partition("?")[0]
                if verb in ("GET", "HEAD") and path == PATH:
                    await self._answer(writer, "200 OK", await self._text(), body=verb == "GET")
                else:
                    await self._answer(writer, "404 Not Found", f"Only {PATH} is here.\n", body=True)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            log.debug("a2a_server.metrics.scraper_gone")
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, writer: asyncio.StreamWriter, status: str, text: str, *, body: bool) -> None:
        raw = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(raw)}\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n".encode() + (raw if body else b""))
        await writer.drain()
