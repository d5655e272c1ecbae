"""preflight: what is wrong with a Redis is said at the start, with what to do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stores import preflight
from stores.client import Client
from stores.errors import StoreMisconfigured
from tests.support.engines import engine


@asynccontextmanager
async def asked(*args: str) -> AsyncIterator[Client]:
    with engine("valkey", args=args) as server:
        client = Client(server.url)
        try:
            yield client
        finally:
            await client.close()


async def test_an_engine_that_is_set_up_well_has_nothing_to_hear() -> None:
    async with asked() as client:
        assert await preflight.require_fit(client) == []


async def test_one_that_would_throw_conversations_away_is_refused() -> None:
    async with asked("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru") as client:
        with pytest.raises(StoreMisconfigured, match="noeviction"):
            await preflight.require_fit(client)
        await client.call("CONFIG", "SET", "maxmemory", "0")
        assert [finding.code for finding in await preflight.require_fit(client)] == ["eviction"]


@pytest.mark.parametrize(("save", "word"), [("", "everything"), ("3600 1", "snapshots")])
async def test_one_that_forgets_is_warned_about(save: str, word: str) -> None:
    async with asked("--appendonly", "no", "--save", save) as client:
        (finding,) = await preflight.require_fit(client)
        assert (finding.severity, finding.code) == ("warn", "persistence")
        assert word in finding.message
        assert "appendonly yes" in finding.hint


async def test_one_with_too_few_connections_is_warned_about() -> None:
    async with asked("--maxclients", "40") as client:
        (finding,) = await preflight.require_fit(client)
        assert (finding.severity, finding.code) == ("warn", "connections")


async def test_a_replica_is_warned_about() -> None:
    async with asked() as client:
        await client.call("REPLICAOF", "127.0.0.1", "1")
        assert [finding.code for finding in await preflight.require_fit(client)] == ["replica"]


async def test_a_clock_that_is_wrong_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked() as client:
        there = time.time
        monkeypatch.setattr("stores.preflight.time.time", lambda: there() + 90)
        (finding,) = await preflight.require_fit(client)
        assert finding.code == "clock"
        assert "90 s" in finding.message or "89 s" in finding.message


async def test_a_user_that_may_not_ask_is_not_refused_for_it() -> None:
    async with asked() as client:
        await client.call("ACL", "SETUSER", "default", "-info", "-config")
        assert await preflight.require_fit(client) == []


@pytest.mark.parametrize(
    ("version", "fit"), [("6.0.16", False), ("5.0.14", False), ("6.2.0", True), ("7.2.4", True), ("10.0.1", True)]
)
def test_a_version_that_is_too_old_is_refused(version: str, fit: bool) -> None:
    assert [finding.severity for finding in preflight._version(version)] == ([] if fit else ["refuse"])
