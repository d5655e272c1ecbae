"""The worker process: uvicorn under gunicorn, which goes on answering while it drains.

SIGTERM           drain: the listener stays open while the application finishes its work, at most drain_seconds
SIGINT, SIGQUIT   quick: the application gets no time, open answers a few seconds
the master died   orphaned: as a drain, but the listener is closed at once, since a new master needs the port
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, ClassVar

from gunicorn.arbiter import Arbiter
from uvicorn import Config, Server
from uvicorn_worker import UvicornWorker

from server.doors import close_listeners, part, say_goodbye, take_in
from server.transport.head import bounded_http

logger = logging.getLogger(__name__)

# What the application may take beyond its time before it is cancelled: it ends by itself at the deadline.
GRACE_SECONDS = 2.0
# Open connections after the drain: the streams have had their last event, so this is for slow readers.
CLOSING_SECONDS = 5.0
# Connections that were just accepted or just answered: their next request is on its way, and uvicorn would cut it off.
LINGER_SECONDS = 1.0
# How long the master waits beyond drain_seconds: all of the above, and the application's own clean-up.
MARGIN_SECONDS = GRACE_SECONDS + LINGER_SECONDS + CLOSING_SECONDS + 5.0

Drain = Callable[[float], Awaitable[None]]


class DrainingServer(Server):
    """A uvicorn server that drains its application before it closes its listener."""

    def __init__(
        self, config: Config, drain_seconds: float, parent: int, *, is_last: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_last` says at the end whether nobody who stays listens on the same socket."""
        super().__init__(config)
        self._drain_seconds = drain_seconds
        self._parent = parent
        self._is_last = is_last
        self._quick = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again at its end, and a worker that did what it was asked would look killed.
        self._quick = self._quick or sig != signal.SIGTERM
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if not self.should_exit and counter % 10 == 0 and os.getppid() != self._parent:
            logger.warning("the master is gone: worker %d finishes its work and ends", os.getpid())
            self.should_exit = True
            await self._close_listeners(last=True)
        return await super().on_tick(counter)

    async def main_loop(self) -> None:
        await super().main_loop()
        # Asked for only now: the application makes it when it starts.
        drain: Drain | None = getattr(getattr(self.config.app, "state", None), "drain", None)
        if drain is None:
            return
        # Clients that keep their connection are asked to make their next one elsewhere.
        self.config.encoded_headers.append((b"connection", b"close"))
        say_goodbye(self.server_state.connections)
        seconds = 0.0 if self._quick else self._drain_seconds
        await self._tick_during(drain, seconds)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._close_listeners(last=self._is_last())
        if not self._quick:
            await part(self.server_state.connections, LINGER_SECONDS)
        await super().shutdown(sockets)

    async def _close_listeners(self, *, last: bool) -> None:
        waiting = close_listeners(self.servers, last=last)
        await take_in(waiting, self._new_connection, self.config.ssl, LINGER_SECONDS)

    def _new_connection(self) -> asyncio.Protocol:
        """As uvicorn makes it for what its listener accepts."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def _tick_during(self, drain: Drain, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds + GRACE_SECONDS
        was_quick = self._quick
        draining = asyncio.ensure_future(drain(seconds))
        counter = 0
        while not draining.done() and loop.time() < deadline and self._quick == was_quick:
            await super().on_tick(counter)  # the heartbeat that the master watches is part of it
            counter += 1
            await asyncio.wait([draining], timeout=0.1)
        if not draining.done():
            logger.warning("worker %d closes before its work has ended", os.getpid())
            draining.cancel()
        results = await asyncio.gather(draining, return_exceptions=True)
        if isinstance(results[0], Exception):
            logger.error("the application failed to drain", exc_info=results[0])


class DrainingWorker(UvicornWorker):  # type: ignore[misc]  # gunicorn has no types
    """One worker of the fleet; `self.app` is the `Fleet` that the master made before it forked."""

    CONFIG_KWARGS: ClassVar[dict[str, Any]] = {
        "loop": "uvloop",
        "http": "httptools",
        "ws": "none",
        "lifespan": "on",  # an application that can't start must not look started
        "server_header": False,
        "access_log": False,
        "timeout_graceful_shutdown": int(CLOSING_SECONDS),
    }

    async def _serve(self) -> None:
        _spare_the_collector()
        settings = self.app.plan.settings
        self.config.app = self.wsgi
        self.config.http = bounded_http(settings.max_header_bytes)
        server = DrainingServer(self.config, settings.drain_seconds, self.ppid, is_last=self.app.is_ending)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGQUIT, server.handle_exit, signal.SIGQUIT, None)
        await server.serve(sockets=self.sockets)
        if not server.started:
            sys.exit(Arbiter.WORKER_BOOT_ERROR)


def _spare_the_collector() -> None:
    """What is loaded by now stays, and a turn leaves no cycles of note: looking for garbage after every 700 objects, as
    Python does by itself, is 5 % of a turn."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
