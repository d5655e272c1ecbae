"""How a worker lets go of its listener and of its connections without cutting off a request.

A connection is closed by us only after an answer that said `Connection: close`, or when it was silent for a while and
nothing lies unread in it. What waits in the listener's queue is taken in before the last one who listens closes it: the
kernel would reset it.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Iterable
from typing import Any, Protocol

# A client that was just answered may be sending its next request right now.
SILENT_SECONDS = 0.25

ProtocolFactory = Callable[[], asyncio.Protocol]


class Listening(Protocol):
    """What is used of the event loop's servers."""

    @property
    def sockets(self) -> Iterable[Any]: ...

    def close(self) -> None: ...


def say_goodbye(connections: Iterable[Any]) -> None:
    """Answers that have not begun will say that the connection ends with them."""
    for connection in connections:
        cycles = [connection.cycle, *(cycle for cycle, _ in getattr(connection, "pipeline", ()))]
        for cycle in cycles:
            if cycle is not None and not cycle.response_started:
                cycle.keep_alive = False


def close_listeners(servers: Iterable[Listening], *, last: bool) -> list[socket.socket]:
    """Stops listening. Where nobody else listens there, also the connections that nobody had accepted yet."""
    waiting: list[socket.socket] = []
    for server in servers:
        spare = [socket.socket(fileno=os.dup(listener.fileno())) for listener in server.sockets] if last else []
        server.close()
        for listener in spare:
            with listener:
                waiting += _accept_all(listener)
    return waiting


def _accept_all(listener: socket.socket) -> list[socket.socket]:
    accepted: list[socket.socket] = []
    listener.setblocking(False)
    while True:
        try:
            connection, _ = listener.accept()
        except ConnectionError:
            continue  # it gave up while it waited
        except OSError:
            return accepted  # no more, or no more descriptors
        connection.setblocking(False)
        accepted.append(connection)


async def take_in(waiting: Iterable[socket.socket], protocol: ProtocolFactory, tls: Any, seconds: float) -> None:
    """Serves connections that were accepted by hand; those whose handshake fails are closed by the loop."""
    loop = asyncio.get_running_loop()
    joining = [loop.create_task(loop.connect_accepted_socket(protocol, one, ssl=tls)) for one in waiting]
    if joining:
        _, late = await asyncio.wait(joining, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*joining, return_exceptions=True)


async def part(connections: set[Any], seconds: float) -> None:
    """Closes uvicorn's connections as they fall silent, until none is left or the time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    silent: dict[Any, tuple[Any, float]] = {}
    while connections and (now := loop.time()) < deadline:
        for connection in list(connections):
            cycle, since = silent.get(connection, (None, now))
            if not _is_idle(connection):
                silent.pop(connection, None)
            elif cycle is not connection.cycle:
                silent[connection] = (connection.cycle, now)
            elif now - since >= SILENT_SECONDS and not _has_unread(connection.transport):
                connection.shutdown()
        await asyncio.sleep(0.02)


def _is_idle(connection: Any) -> bool:
    """Whether its last request was answered and nothing has come since. One that was just accepted is about to ask."""
    answered = connection.cycle is not None and connection.cycle.response_complete
    # uvicorn's timer of an idle connection runs from an answer to the next byte.
    return answered and connection.timeout_keep_alive_task is not None


def _has_unread(transport: asyncio.Transport) -> bool:
    peer = transport.get_extra_info("socket")
    if peer is None or peer.fileno() < 0:
        return False
    look = select.poll()
    look.register(peer.fileno(), select.POLLIN)
    return bool(look.poll(0))
