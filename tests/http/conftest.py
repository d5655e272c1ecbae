"""One worker served by uvicorn on a loopback port, a real Valkey behind it, and no key without a TTL after any test."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop
from fastapi import FastAPI

from server.app import create_app
from server.auth.caller import ANONYMOUS
from server.config.settings import Settings
from stores import Store, open_store
from stores.keys import ContextRef
from tests.support.agents import Ledger, Puppet
from tests.support.client import WIRES, Speaker, Wire, new_client
from tests.support.engines import Engine, engine
from tests.support.lapse import assert_all_keys_lapse
from tests.support.wait import wait_until

START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: its address, its application, and the folder between its agent and the test."""

    url: str
    app: FastAPI
    settings: Settings
    ledger: Ledger
    loop: asyncio.AbstractEventLoop


@contextmanager
def serving(settings: Settings, agent: Puppet) -> Iterator[Served]:
    """The application on a loop and a thread of its own: what blocks there does not block the test."""
    app = create_app(settings, agent)
    config = uvicorn.Config(app, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    started = threading.Event()
    # The loop of production. asyncio's own leaves Nagle's algorithm on for inherited listeners: 40 ms a request.
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()

    async def serve(listener: socket.socket) -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        started.set()
        await task

    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=lambda: loop.run_until_complete(serve(listener)), name="server")
        thread.start()
        try:
            assert started.wait(START_SECONDS), "the server did not start"
            assert server.started, "the server could not start"
            yield Served(f"http://127.0.0.1:{port}", app, settings, agent.ledger, loop)
        finally:
            server.should_exit = True
            thread.join(START_SECONDS)
            assert not thread.is_alive(), "the server did not end"
            loop.close()


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


Serve = Callable[..., Served]


@pytest.fixture
def serve(real_engine: Engine, tmp_path: Path) -> Iterator[Serve]:
    """Starts servers with settings of their own; all of them end with the test."""
    with ExitStack() as stack:

        def start(agent: Puppet | None = None, **own: Any) -> Served:
            settings = settings_for(real_engine, **own)
            return stack.enter_context(serving(settings, agent or Puppet(tmp_path)))

        yield start


def settings_for(real_engine: Engine, **own: Any) -> Settings:
    base = {"redis_url": real_engine.url, "namespace": f"h{uuid.uuid4().hex[:8]}", "cancel_wait_seconds": 2}
    return Settings(**{**base, **own})


@pytest.fixture(scope="session")
def shared_server(real_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = settings_for(real_engine, heartbeat_seconds=0.5, max_contexts=0)
    with serving(settings, Puppet(tmp_path_factory.mktemp("shared"))) as served:
        yield served


@pytest.fixture
def server(shared_server: Served) -> Served:
    """The server most tests share: default settings, contexts of their own."""
    return shared_server


@pytest.fixture
def ledger(server: Served) -> Ledger:
    return server.ledger


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    chosen: Wire = request.param
    return chosen


Dial = Callable[..., Speaker]


@pytest.fixture
def dial(http: httpx.AsyncClient, server: Served) -> Dial:
    """A speaker of any wire, at the shared server or at the one given."""

    def at(wire: Wire = "1.0", served: Served = server) -> Speaker:
        return Speaker(http, served.url, wire)

    return at


@pytest.fixture
async def stores(real_engine: Engine) -> AsyncIterator[Callable[[Served], Store]]:
    """The namespace of a server, to look at from outside."""
    async with AsyncExitStack() as stack:

        def of(served: Served) -> Store:
            opened = open_store(real_engine.url, str(served.settings.namespace))
            stack.push_async_callback(opened.close)
            return opened

        yield of


@pytest.fixture
def store(stores: Callable[[Served], Store], server: Served) -> Store:
    return stores(server)


@pytest.fixture(autouse=True)
async def bounded_memory(real_engine: Engine) -> AsyncIterator[None]:
    """Whatever namespaces a test used: every key of the engine lapses by itself."""
    yield
    await assert_all_keys_lapse(real_engine.url)


async def started(ledger: Ledger, **like: Any) -> dict[str, Any]:
    """Waits until an agent has begun such a turn; what it noted."""
    await wait_until(lambda: ledger.notes("start", **like), what=f"a turn like {like}")
    return ledger.notes("start", **like)[0]


async def queue_is(store: Store, context_id: str, length: int) -> bool:
    """Whether so many messages wait in the context."""
    context = ContextRef.of(ANONYMOUS.key, context_id)
    return bool(await store.client.call("LLEN", store.keys.queue(context)) == length)
