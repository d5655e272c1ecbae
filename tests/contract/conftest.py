"""A store on each real engine we promise, an empty namespace per test, and no key without a TTL after it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from stores import Store, open_store
from stores.records import Limits
from tests.support.clusters import Cluster, cluster
from tests.support.engines import Engine, engine


@pytest.fixture(scope="session", params=["valkey", "redis6", "cluster"])
def real_engine(request: pytest.FixtureRequest) -> Iterator[Engine | Cluster]:
    """Each test on one node of either engine, and on a Cluster of three."""
    with cluster() if request.param == "cluster" else engine(request.param) as running:
        yield running


@pytest.fixture
def one_node(real_engine: Engine | Cluster) -> Engine:
    """For a test of what only one node has: its own settings, connections, or several slots' keys in one script."""
    if isinstance(real_engine, Cluster):
        pytest.skip("of one node")
    return real_engine


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
async def store(real_engine: Engine | Cluster, limits: Limits) -> AsyncIterator[Store]:
    opened = open_store(real_engine.url, f"t{uuid.uuid4().hex[:8]}", limits)
    yield opened
    await assert_every_key_lapses(opened)
    await opened.close()


@pytest.fixture
async def fleet(real_engine: Engine | Cluster, store: Store) -> AsyncIterator[list[Store]]:
    """Four stores on one namespace, each with connections of its own, as four workers have them."""
    others = [open_store(real_engine.url, store.keys.namespace, store.limits) for _ in range(3)]
    yield [store, *others]
    for other in others:
        await other.close()


async def assert_every_key_lapses(store: Store) -> None:
    """No promise of bounded memory holds for a key without a TTL."""
    await store.settled(20)
    endless: list[str] = []
    for node in await store.client.nodes():
        cursor = 0
        while True:
            cursor, keys = await node.call("SCAN", cursor, "MATCH", f"{store.keys.namespace}:*", "COUNT", 1000)
            ttls = await node.batch([["PTTL", key] for key in keys]) if keys else []
            endless += [key for key, ttl in zip(keys, ttls, strict=True) if ttl == -1]
            if int(cursor) == 0:
                break
    assert not endless, f"keys without a TTL: {endless}"
