"""Two servers on one Valkey, and every official client that can talk to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.environments import environment
from tests.interop.fleet import running_server
from tests.interop.remote import Client, Driver, Sdk, running_driver
from tests.support.engines import Engine, engine

# name -> driver, binding
SDKS = {
    "sdk 1 JSON-RPC": ("sdk1_driver", "rpc"),
    "sdk 1 HTTP+JSON": ("sdk1_driver", "rest"),
    "sdk 1 as 0.3": ("sdk1_driver", "compat"),
    "sdk 0.3": ("sdk03_driver", "rpc"),
}
NEW = [name for name in SDKS if not name.endswith("0.3")]

Servers = tuple[str, str]


@pytest.fixture(scope="session")
def valkey() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="session")
def servers(valkey: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    yield from _pair(valkey, "Scripted", tmp_path_factory)


@pytest.fixture(scope="session")
def direct_servers(valkey: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    yield from _pair(valkey, "Direct", tmp_path_factory)


def _pair(valkey: Engine, agent: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    logs = tmp_path_factory.mktemp(agent)
    with (
        running_server(agent, valkey.url, logs / "a") as a,
        running_server(agent, valkey.url, logs / "b") as b,
    ):
        assert a != b
        yield a, b


# One fixture for each library: where its environment can't be made, that is found out once and not in every test.
@pytest.fixture(scope="session")
def sdk1_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with running_driver(environment("a2a-1"), "sdk1", tmp_path_factory.mktemp("sdk1") / "log") as driver:
        yield driver


@pytest.fixture(scope="session")
def sdk03_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with running_driver(environment("a2a-03"), "sdk03", tmp_path_factory.mktemp("sdk03") / "log") as driver:
        yield driver


def _sdk(request: pytest.FixtureRequest, name: str, servers: Servers) -> Sdk:
    fixture, binding = SDKS[name]
    a, b = (Client(request.getfixturevalue(fixture), binding, url) for url in servers)
    return Sdk(name, a, b)


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest, servers: Servers) -> Sdk:
    """Each library over each binding in turn."""
    return _sdk(request, request.param, servers)


@pytest.fixture(params=NEW)
def sdk1(request: pytest.FixtureRequest, servers: Servers) -> Sdk:
    """Those that speak 1.0."""
    return _sdk(request, request.param, servers)


@pytest.fixture
def sdks(request: pytest.FixtureRequest, servers: Servers) -> list[Sdk]:
    """All at once, for tests in which each has to wait."""
    return [_sdk(request, name, servers) for name in SDKS]


@pytest.fixture(params=SDKS)
def direct(request: pytest.FixtureRequest, direct_servers: Servers) -> Sdk:
    """Each library, pointed at an agent that may answer with a message instead of a task."""
    return _sdk(request, request.param, direct_servers)
