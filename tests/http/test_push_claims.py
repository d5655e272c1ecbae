"""Deliveries that a worker has and does not know, knows and does not have, or that nobody has: each is found again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from server.auth.caller import ANONYMOUS
from server.protocol.model import PushConfig
from server.push.document import Registered, config_name, dump_config
from server.push.secrets import SecretBox, sealing_key
from stores import Store
from stores.keys import DeliveryRef
from stores.records import Beat, Limits
from tests.http.conftest import Dial, Serve, Served, serving, settings_for
from tests.http.test_push import ON, SEALING, served_by_nobody
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Puppet
from tests.support.client import Speaker, Wire, new_client
from tests.support.engines import engine
from tests.support.wait import wait_found


@pytest.fixture
def server(serve: Serve) -> Served:
    return serve(**ON)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


@pytest.fixture
def beside(store: Store) -> Store:
    """The server's store as another worker with push notifications has it."""
    return Store(store.client, store.keys.namespace, Limits(push_configs=16), working="working", submitted="submitted")


def document(task_id: str, url: str) -> str:
    box = SecretBox([sealing_key(SEALING)])
    return dump_config(box, task_id, Registered("c", PushConfig("c", url), True))


def worker_of(server: Served) -> str:
    return str(server.app.state.node.worker.id)


async def test_r09_a_delivery_whose_answer_was_lost_is_taken_up(
    server: Served, dial: Dial, hook: Hook, beside: Store
) -> None:
    gate = uuid.uuid4().hex
    task = (await dial().send(f"work {gate}", wait=False)).task
    ref = DeliveryRef(ANONYMOUS.key, task.id)
    # As if this worker had asked for it and never heard the answer.
    word, fence = await beside.push.put_push_config(
        worker_of(server), ref, config_name("c"), document(task.id, hook.url)
    )
    assert (word, fence != "") == ("put", True)
    server.ledger.open(gate)
    await hook.until_state("completed")
    await wait_found(served_by_nobody(beside))


async def test_what_nobody_serves_is_taken_at_a_beat(server: Served, dial: Dial, hook: Hook, beside: Store) -> None:
    task = (await dial().send("ask")).task
    ref = DeliveryRef(ANONYMOUS.key, task.id)
    await beside.push.put_push_config("somebody", ref, config_name("c"), document(task.id, hook.url))
    key = beside.keys.push(ref.tag, ref.caller, ref.task_id)
    await beside.client.call("HSET", key, f"c:{config_name('c')}", "0-0")
    await beside.client.call("SADD", beside.keys.undelivered, ref.text)
    await beside.client.call("PEXPIRE", beside.keys.undelivered, 60_000)
    await hook.until_state("input-required")
    await wait_found(served_by_nobody(beside))
    assert hook.states == ["working", "input-required"]


async def test_a_delivery_that_became_another_workers_is_left_to_it(
    server: Served, dial: Dial, hook: Hook, beside: Store
) -> None:
    gate = uuid.uuid4().hex
    mine = Registrar(dial())
    task = (await mine.send(f"work {gate}", mine.config(hook.url), wait=False)).task
    ref = DeliveryRef(ANONYMOUS.key, task.id)
    assert await beside.push.claim_push("another", ref, owner=worker_of(server)) is not None

    async def dropped() -> bool:
        return not server.app.state.node.pusher._served

    await wait_found(dropped, what="the delivery's end in this worker")
    server.ledger.open(gate)
    await mine.speaker.send("echo")
    assert hook.told == []


async def test_r43_no_attempt_is_made_that_another_worker_has_the_right_to(
    serve: Serve, dial: Dial, hook: Hook, stores: Callable[[Served], Store]
) -> None:
    # No beat tells it: it asks before each attempt.
    served = serve(**{**ON, "heartbeat_seconds": 60, "presumed_dead_seconds": 120, "push_retry_seconds": 0.5})
    store, mine = stores(served), Registrar(dial("1.0", served))
    hook.always = 503
    task = (await mine.send("echo", mine.config(hook.url))).task
    await hook.until(1)
    assert await store.push.claim_push("another", DeliveryRef(ANONYMOUS.key, task.id), owner=worker_of(served))

    async def dropped() -> bool:
        return not served.app.state.node.pusher._served

    await wait_found(dropped, what="the delivery's end in this worker")
    assert len(hook.told) == 1


async def test_a_roster_that_was_lost_comes_back(server: Served, dial: Dial, hook: Hook, beside: Store) -> None:
    gate = uuid.uuid4().hex
    mine = Registrar(dial())
    task = (await mine.send(f"work {gate}", mine.config(hook.url), wait=False)).task
    await beside.client.call("DEL", beside.keys.deliveries(worker_of(server)))

    async def back() -> bool:
        return await beside.fleet.deliveries(worker_of(server)) == (DeliveryRef(ANONYMOUS.key, task.id).text,)

    await wait_found(back)
    server.ledger.open(gate)
    await hook.until_state("completed")
    assert hook.states == ["completed"]


async def test_a_claim_that_a_failover_forgot_is_taken_again(
    server: Served, dial: Dial, hook: Hook, beside: Store
) -> None:
    gate = uuid.uuid4().hex
    mine = Registrar(dial())
    task = (await mine.send(f"work {gate}", mine.config(hook.url), wait=False)).task
    ref = DeliveryRef(ANONYMOUS.key, task.id)
    await beside.client.call("HSET", beside.keys.push(ref.tag, ref.caller, ref.task_id), "owner", "", "fence", "0")
    server.ledger.open(gate)
    await hook.until_state("completed")
    await wait_found(served_by_nobody(beside))
    assert hook.states == ["completed"]


async def test_a_reaped_worker_goes_on_as_another_one_that_finds_what_it_lost(
    serve: Serve, dial: Dial, hook: Hook, stores: Callable[[Served], Store]
) -> None:
    served = serve(**{**ON, "presumed_dead_seconds": 1, "push_retry_seconds": 60, "push_max_attempts": 2})
    store, mine = stores(served), Registrar(dial("1.0", served))
    hook.statuses = [503]
    await mine.stream("echo", mine.config(hook.url))
    await hook.until(1)
    former = worker_of(served)
    beat = await store.fleet.beat_worker("observer", "{}")
    assert isinstance(beat, Beat)
    assert await store.fleet.reap_worker(former, beat.counters[former]) is not None
    # Its retry is a minute away: whoever tells the rest has begun anew from the cursor.
    await hook.until_state("completed")
    assert worker_of(served) != former
    assert hook.states == ["submitted", "submitted", "working", "completed"]
    assert hook.told[0].id == hook.told[1].id


# --- whose they are -------------------------------------------------------------------------------------------------


async def test_another_callers_configs_are_not_there(serve: Serve, hook: Hook, wire: Wire) -> None:
    people = {name: f"key of {name}" for name in ("alice", "mallory")}
    entries = [{"id": name, "sha256": sha256(key.encode()).hexdigest()} for name, key in people.items()]
    served = serve(**{**ON, "auth": {"type": "api_key", "api_keys": entries}})

    def caller(http: Any, name: str) -> Registrar:
        http.headers["X-Api-Key"] = people[name]
        return Registrar(Speaker(http, served.url, wire))

    async with new_client() as one, new_client() as two:
        alice, mallory = caller(one, "alice"), caller(two, "mallory")
        task = (await alice.send("ask", alice.config(hook.url, config_id="c", token="hers"))).task
        config = mallory.config(hook.url, config_id="c")
        answers = [
            await mallory.create(task.id, config),
            await mallory.get(task.id, "c"),
            await mallory.list(task.id),
            await mallory.delete(task.id, "c"),
            await mallory.send("echo", config, task=task.id),
        ]
        assert [answer.fault.code for answer in answers] == [-32001] * 5
        assert not any("hers" in str(answer.body) for answer in answers)
        assert alice.shown(await alice.get(task.id, "c"))["token"] == "hers"


async def test_many_callbacks_of_one_worker_are_served_side_by_side(server: Served, dial: Dial) -> None:
    hooks = [Hook() for _ in range(8)]
    async with asyncio.TaskGroup() as group:
        for each in hooks:
            group.create_task(each.__aenter__())
    try:
        hooks[0].open.clear()
        mine = Registrar(dial())
        await asyncio.gather(*(mine.stream("stream 3", mine.config(each.url)) for each in hooks))
        await asyncio.gather(*(each.until_state("completed") for each in hooks[1:]))
        assert len(hooks[0].told) == 1
    finally:
        for each in hooks:
            await each.__aexit__()


async def test_a_store_that_goes_and_comes_back_loses_no_callback(dial: Dial, hook: Hook, tmp_path: Path) -> None:
    with engine("valkey") as own, serving(settings_for(own, **ON), Puppet(tmp_path)) as served:
        mine = Registrar(dial("1.0", served))
        hook.open.clear()
        await mine.stream("stream 3", mine.config(hook.url))
        await hook.until(1)
        await asyncio.to_thread(own.stop)
        hook.open.set()
        await asyncio.to_thread(own.start)
        await hook.until_state("completed")
        assert list(dict.fromkeys(hook.states)) == ["submitted", "working", "completed"]
        assert len({told.id for told in hook.told}) == 6
