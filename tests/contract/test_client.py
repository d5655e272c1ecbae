"""client: the library's errors end here, and no call runs more often than we say."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError

from stores import Store, open_store
from stores.client import _heeding_cancel, redacted, wait_ready
from stores.errors import StoreCorrupt, StoreDenied, StoreUnavailable
from stores.records import Queued
from tests.contract.builders import CALLER, admit, running
from tests.support.engines import Engine, engine


@pytest.mark.usefixtures("one_node")
async def test_a_demoted_primary_is_unavailable_and_not_corrupt(store: Store) -> None:
    ticket = await running(store)
    await store.client.call("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(StoreUnavailable):
            await admit(store, message_id="m2")
        with pytest.raises(StoreUnavailable):
            await store.client.call("SET", f"{store.keys.namespace}:x", "1", "PX", "1000")
    finally:
        await store.client.call("REPLICAOF", "NO", "ONE")
    assert await store.turns.running_marks([ticket]) == [(True, False)]


async def test_a_key_of_another_kind_is_corrupt_and_says_where(store: Store) -> None:
    context = (await running(store)).context
    await store.client.call("DEL", store.keys.queue(context))
    await store.client.call("SET", store.keys.queue(context), "not a list", "PX", "1000")
    with pytest.raises(StoreCorrupt, match=r"admit_turn: .*WRONGTYPE.*|admit_turn: .*admit_turn\.lua:\d+"):
        await admit(store, message_id="m2")


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = open_store("redis://127.0.0.1:1/0", "t")
    with pytest.raises(StoreUnavailable):
        await store.ping()
    with pytest.raises(StoreUnavailable):
        await wait_ready(store.client, 0.1)
    await store.close()


async def test_a_refused_user_is_told_at_once_at_the_start() -> None:
    with engine("valkey", port=0, args=("--requirepass", "sesame")) as guarded:
        store = open_store(f"redis://:wrong@127.0.0.1:{guarded.port}/0", "t")
        with pytest.raises(StoreDenied):
            await wait_ready(store.client, 30)
        await store.close()


async def test_a_server_that_forgot_the_scripts_is_sent_them(store: Store) -> None:
    ticket = await running(store)
    await store.client.call("SCRIPT", "FLUSH")
    assert (await store.tasks.list_tasks(CALLER)).tasks[0].task_id == ticket.task_id
    await store.client.call("SCRIPT", "FLUSH")
    await running(store, context_id="other")


async def test_a_restart_is_waited_for_and_nothing_is_lost() -> None:
    with engine("valkey") as server:
        store = open_store(server.url, "t")
        ticket = await running(store)
        await asyncio.to_thread(server.restart)
        await wait_ready(store.client, 5)
        assert await store.turns.running_marks([ticket]) == [(True, False)]
        await store.close()


async def test_a_worker_that_finds_its_redis_again_takes_turns_at_once() -> None:
    """The pause before the next try of the turns' own connection ends when any other one is answered."""
    with engine("valkey") as server:
        store = open_store(server.url, "ns")
        try:
            await admit(store)
            server.kill()
            for _ in range(20):
                with pytest.raises(StoreUnavailable):
                    await admit(store)
            server.start()
            await store.ping()
            assert isinstance(await admit(store, message_id="m2"), Queued)
        finally:
            await store.close()


async def test_a_connection_that_uvloop_has_closed_is_a_lost_connection() -> None:
    """It says so by a RuntimeError, which the library lets through; any other one is a mistake of ours."""

    async def write(text: str) -> None:
        raise RuntimeError(text)

    call = _heeding_cancel(write)
    with pytest.raises(ConnectionError):
        await call("unable to perform operation on <TCPTransport closed=True>; the handler is closed")
    with pytest.raises(RuntimeError, match="another mistake"):
        await call("another mistake")


@pytest.mark.parametrize("command", ["call", "batch"])
async def test_a_cancel_is_never_swallowed(store: Store, command: str) -> None:
    """At whatever step of the library it comes: who cancels a follower waits for its end."""
    done = steps = 0
    # As many as it takes on this machine until a call ends before its cancel; then every step was tried.
    while not done or steps < 40:
        steps += 1 if steps < 200 else steps
        assert steps < 1_000_000, "no call ever ended"
        asked = (["PING"],) if command == "batch" else ("PING",)
        call = asyncio.ensure_future(getattr(store.client, command)(*([asked] if command == "batch" else asked)))
        for _ in range(steps):
            await asyncio.sleep(0)
        done += call.done()
        was_done = call.done()
        call.cancel()
        await asyncio.wait({call}, timeout=5)
        assert call.cancelled() or was_done, f"swallowed after {steps} steps"


@pytest.mark.usefixtures("one_node")
async def test_the_engine_tells_its_name_and_version(store: Store, real_engine: Engine) -> None:
    told = await store.engine()
    assert told["engine"] == ("valkey" if real_engine.name == "valkey" else "redis")
    assert told["version"].startswith("6.2" if real_engine.name == "redis6" else "9")


def test_a_password_is_never_shown() -> None:
    assert redacted("rediss://user:s3cret@host:6379/0") == "rediss://user:***@host:6379/0"
    assert redacted("redis://:s3cret@host") == "redis://:***@host"
    assert redacted("unix:///tmp/s") == "unix:///tmp/s"
