"""meter: every call is timed by its operation, and every fault is counted under a word of its own."""

from __future__ import annotations

import asyncio
import timeit

import pytest
from redis.exceptions import ConnectionError, ResponseError

from stores import Store, open_store
from stores.client import Client
from stores.errors import StoreError
from stores.meter import BOUNDS, KINDS, Meter, kind_of
from tests.contract.builders import admit, running
from tests.support.engines import engine
from tests.support.wait import wait_found


def count(store: Store, operation: str) -> float:
    return sum(store.client.meter.rows.get(operation, [0.0])[:-1])


async def test_every_operation_is_timed_under_its_own_name(store: Store) -> None:
    ticket = await running(store)
    assert await store.tasks.read_task(ticket.context.caller, ticket.task_id)
    await store.turns.running_marks([ticket])
    await store.ping()
    nodes = len(await store.client.nodes())
    assert [count(store, name) for name in ("admit_turn", "read_task", "batch", "ping")] == [1, 1, 1, nodes]
    for row in store.client.meter.rows.values():
        assert len(row) == len(BOUNDS) + 2
        assert row[-1] > 0


async def test_what_failed_is_timed_too_and_counted_by_kind() -> None:
    with engine("valkey", port=0) as server:
        store = open_store(f"redis://127.0.0.1:{server.port}/0", "t")
        await running(store)
        meter = store.client.meter

        await store.client.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreError):
            await admit(store, context_id="other")
        assert meter.faults == {"full": 1}
        await store.client.call("CONFIG", "SET", "maxmemory", "0")

        await store.client.call("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreError):
            await admit(store, context_id="other")
        assert meter.faults["readonly"] >= 1
        await store.client.call("REPLICAOF", "NO", "ONE")

        await store.client.call("ACL", "SETUSER", "default", "-info")
        with pytest.raises(StoreError):
            await store.engine()
        assert (meter.faults["denied"], count(store, "info")) == (1, 1)

        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreError):
            await admit(store, context_id="other")
        assert meter.faults["connection"] >= 1
        assert set(meter.faults) <= KINDS
        await store.close()


async def test_a_server_that_does_not_answer_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.client.ANSWER_SECONDS", 0.3)
    with engine("valkey") as server:
        store = open_store(server.url, "t")
        await running(store)
        server.pause()
        try:
            with pytest.raises(StoreError):
                await admit(store, context_id="other")
        finally:
            server.resume()
        assert store.client.meter.faults["timeout"] >= 1
        assert store.client.meter.rows["admit_turn"][-1] >= 0.3
        await store.close()


@pytest.mark.usefixtures("one_node")
async def test_a_cut_that_a_caller_never_notices_is_counted(store: Store) -> None:
    key = f"{store.keys.namespace}:list"
    waiting = asyncio.create_task(store.client.call("BLPOP", key, 2))
    other = Client(store.client.url)

    async def blocked() -> bool:
        return int((await other.call("INFO", "clients"))["blocked_clients"]) > 0

    await wait_found(blocked, what="the call under way")
    await other.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await wait_found(blocked, what="the call repeated")
    await other.call("RPUSH", key, "here")
    assert tuple(await waiting) == (key, "here")
    await other.close()
    assert store.client.meter.repeats == 1
    assert not store.client.meter.faults


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ResponseError("BUSY Redis is busy running a script"), "busy"),
        (ResponseError("user_script:1: MISCONF Errors writing to the AOF file"), "disk"),
        (ResponseError("max number of clients reached"), "clients"),
        (ConnectionError("No connection available."), "pool"),
        (ConnectionError("reset"), "connection"),
        (ResponseError("WRONGTYPE Operation against a key"), "reply"),
    ],
)
def test_faults_that_have_no_class_of_their_own_are_told_by_their_code(error: ResponseError, kind: str) -> None:
    assert kind_of(error) == kind


def test_timing_a_call_costs_less_than_a_microsecond() -> None:
    meter = Meter()
    cost = min(timeit.repeat(lambda: meter.took("admit_turn", 0.0007), number=5000, repeat=20)) / 5000
    # Alone it takes a third of a microsecond; the bound is for a machine that does other things as well.
    assert cost < 3e-6
