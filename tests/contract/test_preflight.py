"""preflight: what is wrong with a Redis is said at the start, with what to do."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from stores import Store, open_store, preflight
from stores.errors import StoreMisconfigured
from stores.fitness import EngineFacts, judge_engine
from stores.fleet import SCHEMA
from tests.support.engines import engine


@asynccontextmanager
async def asked(*args: str) -> AsyncIterator[Store]:
    with engine("valkey", args=args) as server:
        store = open_store(server.url, "t")
        try:
            yield store
        finally:
            await store.close()


async def test_an_engine_that_is_set_up_well_has_nothing_to_hear() -> None:
    async with asked() as store:
        assert await preflight.require_fit(store) == []


async def test_one_that_would_throw_conversations_away_is_refused() -> None:
    async with asked("--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru") as store:
        with pytest.raises(StoreMisconfigured, match="noeviction"):
            await preflight.require_fit(store)
        await store.client.call("CONFIG", "SET", "maxmemory", "0")
        assert [finding.about for finding in await preflight.require_fit(store)] == ["eviction"]


@pytest.mark.parametrize(("save", "level", "word"), [("", "bad", "loses every"), ("3600 1", "warn", "snapshots")])
async def test_one_that_forgets_is_warned_about(save: str, level: str, word: str) -> None:
    async with asked("--appendonly", "no", "--save", save) as store:
        (finding,) = await preflight.require_fit(store)
        assert (finding.level, finding.about) == (level, "persistence")
        assert word in finding.found
        assert "appendonly yes" in finding.todo


async def test_one_with_too_few_connections_is_warned_about() -> None:
    async with asked("--maxclients", "40") as store:
        (finding,) = await preflight.require_fit(store)
        assert (finding.level, finding.about) == ("warn", "connections")


async def test_a_replica_is_warned_about() -> None:
    async with asked() as store:
        await store.client.call("REPLICAOF", "127.0.0.1", "1")
        assert [finding.about for finding in await preflight.preflight(store)] == ["role"]


async def test_a_clock_that_is_wrong_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked() as store:
        there = time.time
        monkeypatch.setattr("stores.fitness.time.time", lambda: there() + 90)
        (finding,) = await preflight.require_fit(store)
        assert finding.about == "clock"
        assert "90 s" in finding.found or "89 s" in finding.found


async def test_a_user_that_may_not_ask_is_not_refused_for_it() -> None:
    async with asked() as store:
        await store.client.call("ACL", "SETUSER", "default", "-info", "-config")
        assert await preflight.require_fit(store) == []


@pytest.mark.parametrize(
    ("version", "fit"), [("6.0.16", False), ("5.0.14", False), ("6.2.0", True), ("7.2.4", True), ("10.0.1", True)]
)
def test_a_version_that_is_too_old_is_refused(version: str, fit: bool) -> None:
    found = judge_engine(EngineFacts({"redis_version": version}, {}))
    assert [finding.about for finding in found if finding.refuses] == ([] if fit else ["engine"])


async def test_both_engines_that_are_promised_are_fit(store: Store) -> None:
    assert not [finding for finding in await preflight.preflight(store) if finding.refuses]


async def test_a_fleet_of_many_workers_needs_more_connections() -> None:
    async with asked("--maxclients", "200") as store:
        assert await preflight.preflight(store) == []
        (finding,) = await preflight.preflight(store, workers=4)
        assert "4 workers may need 264" in finding.found


async def test_a_namespace_is_marked_with_the_form_of_its_records(store: Store) -> None:
    assert await store.fleet.schema() == 0
    await preflight.require_fit(store)
    assert await store.fleet.schema() == SCHEMA
    assert await store.fleet.take_namespace() == SCHEMA
    await store.client.call("PEXPIRE", store.keys.schema, 60_000)
    await store.fleet.beat_worker("w", "{}")
    assert int(await store.client.call("PTTL", store.keys.schema)) > 60_000


async def test_what_a_newer_release_wrote_refuses_the_start_and_stays_as_it_is(store: Store) -> None:
    assert await store.fleet.take_namespace(SCHEMA + 1) == SCHEMA + 1
    with pytest.raises(StoreMisconfigured, match=r"newer release.*namespace of its own"):
        await preflight.require_fit(store)
    # Also where it comes between the look and the first write.
    assert await store.fleet.take_namespace() == SCHEMA + 1
    assert await store.fleet.schema() == SCHEMA + 1


async def test_a_worker_can_start_on_a_full_store() -> None:
    async with asked() as store:
        await store.client.call("CONFIG", "SET", "maxmemory", "1")
        findings = await preflight.require_fit(store)
        assert [finding.about for finding in findings] == ["memory"]
