"""doctor, capacity and push: what is wrong, what things take, and what could not be delivered."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.commands.admin.doctor import judge_keys, judge_live, judge_workers
from stores import Store, open_store
from stores.census import Census
from stores.fitness import EngineFacts, judge_engine
from stores.keys import DeliveryRef
from stores.records import Limits
from stores.sights import WorkerSight
from tests.contract.builders import CALLER, WORKER, running
from tests.ops.conftest import Nonstick, unique
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.wait import wait_for_state, wait_until

HEALTHY: dict[str, Any] = {
    "valkey_version": "9.0.0",
    "role": "master",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "maxmemory_policy": "noeviction",
    "used_memory": 10,
    "maxmemory": 100,
}


def levels(latency: float = 0.2, settings: dict[str, str] | None = None, **info: Any) -> dict[str, str]:
    facts = EngineFacts({**HEALTHY, **info}, settings or {}, 0, (latency,), ())
    return {it.about: it.level for it in judge_engine(facts) if it.level != "ok"}


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({}, {}),
        ({"maxmemory_policy": "allkeys-lru"}, {"eviction": "bad"}),
        ({"evicted_keys": 3}, {"evicted": "bad"}),
        ({"role": "slave"}, {"role": "bad"}),
        ({"used_memory": 80}, {"memory": "warn"}),
        ({"used_memory": 95}, {"memory": "bad"}),
        ({"maxmemory": 0}, {"memory": "note"}),
        ({"aof_enabled": 0}, {"persistence": "warn"}),
        ({"aof_enabled": 0, "settings": {"save": ""}}, {"persistence": "bad"}),
        ({"aof_enabled": 0, "settings": {"save": "60 1"}}, {"persistence": "warn"}),
        ({"aof_last_write_status": "err"}, {"persistence": "bad"}),
        ({"settings": {"appendfsync": "no"}}, {"persistence": "note"}),
        ({"latency": 20.0}, {"latency": "warn"}),
        ({"latency": 200.0}, {"latency": "bad"}),
    ],
)
def test_an_engine_is_judged_by_what_it_says(info: dict[str, Any], found: dict[str, str]) -> None:
    assert levels(**info) == found


def test_what_this_user_may_not_ask_is_said_and_not_guessed() -> None:
    findings = list(judge_engine(EngineFacts({}, {}, -1, (0.1,), ("INFO server", "CONFIG GET"))))
    unknown = {it.about for it in findings if it.level == "note"}
    assert unknown == {"engine", "persistence", "eviction", "memory", "permissions"}
    assert not [it for it in findings if it.todo]


def test_an_engine_that_is_too_old_is_bad() -> None:
    info = {name: value for name, value in HEALTHY.items() if name != "valkey_version"}
    [finding] = [
        it
        for it in judge_engine(EngineFacts({**info, "redis_version": "6.0.16"}, {}, 0, (0.1,), ()))
        if it.about == "engine"
    ]
    assert (finding.level, finding.refuses) == ("bad", True)
    assert "6.0.16" in finding.found
    assert "6.2 or later" in finding.todo


def test_the_fleet_is_judged_by_its_beats_its_cap_and_its_keys() -> None:
    now = 100_000
    silent = WorkerSight("w", "", "", 0, "", (), 2, reaped=False)
    assert [it.level for it in judge_workers([], now)] == ["bad"]
    assert [it.level for it in judge_workers([silent], now)] == ["bad", "warn"]
    assert [[it.level for it in judge_live(count, 10)] for count in (1, 9, 10)] == [["ok"], ["warn"], ["bad"]]
    assert [it.level for it in judge_keys(Census(endless=["x"]))] == ["bad"]


async def test_a_healthy_fleet_gets_a_clean_bill(fleet: Fleet, speaker: Speaker, nonstick: Nonstick) -> None:
    await speaker.send("echo", context=unique("doctor"))
    done = await nonstick("doctor", "--json", namespace=fleet.settings["namespace"])
    assert (done.code, done.data["healthy"]) == (0, True), done.out
    assert done.data["keys"]["task"] >= 1
    assert "unknown" not in done.data["keys"]
    page = await nonstick("doctor", namespace=fleet.settings["namespace"])
    assert "every turn and queue can be found" in page.out


async def test_a_lost_hint_is_found_and_repaired(
    real_engine: Engine, fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    namespace, gate, context = fleet.settings["namespace"], unique("gate"), unique("lost")
    task = (await speaker.send(f"hold {gate}", context=context, wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", context=context), what="the turn's start")
    store = open_store(real_engine.url, namespace)
    try:
        for worker in await store.fleet.workers():
            await store.client.call("DEL", store.keys.turns(worker))
    finally:
        await store.close()

    sick = await nonstick("doctor", namespace=namespace)
    assert sick.code == 1
    assert "nonstick doctor --repair" in sick.out
    assert (await nonstick("doctor", "--repair", namespace=namespace)).code == 0
    assert (await nonstick("doctor", namespace=namespace)).code == 0
    assert task in (await nonstick("ps", namespace=namespace)).out
    ledger.open(gate)
    await wait_for_state([speaker], task, "completed")


async def test_capacity_is_measured_on_what_is_there(fleet: Fleet, speaker: Speaker, nonstick: Nonstick) -> None:
    await speaker.send("hoard 20000", context=unique("big"))
    done = await nonstick("capacity", "--json", namespace=fleet.settings["namespace"])
    assert done.data["bytes_per_task"] > 500
    assert done.data["bytes_per_context"] > 100
    assert done.data["tasks_per_gb"] == int(1e9 / done.data["bytes_per_task"]) or done.data["tasks_per_gb"] > 0
    page = await nonstick("capacity", namespace=fleet.settings["namespace"])
    assert "per GB" in page.out


@pytest.fixture
async def letters(real_engine: Engine) -> AsyncIterator[Store]:
    """A namespace with two dead letters of one callback."""
    store = open_store(real_engine.url, f"o{uuid.uuid4().hex[:8]}", Limits(push_configs=4))
    ticket = await running(store)
    ref = DeliveryRef(CALLER, ticket.task_id)
    _, fence = await store.push.put_push_config(WORKER, ref, "one", "{}")
    book = await store.push.read_push_configs(ref)
    assert book is not None
    for event in ("7-1", "7-2"):
        letter = '{"reason": "HTTP 500", "body": "secret"}'
        await store.push.bury_push(WORKER, ref, fence, book.configs[0], event, letter=letter, always=True)
    yield store
    await store.close()


async def test_dead_letters_are_listed_sent_again_and_dropped(letters: Store, nonstick: Nonstick) -> None:
    namespace = letters.keys.namespace
    listed = await nonstick("push", "list", "--json", namespace=namespace)
    first, second = sorted(it["letter"] for it in listed.data["dead_letters"])
    assert listed.data["total"] == 2
    table = await nonstick("push", "list", namespace=namespace)
    assert "HTTP 500" in table.out
    assert "secret" not in table.out

    dropped = await nonstick("push", "drop", second, "--json", namespace=namespace)
    assert dropped.data == {second: "dropped"}
    retried = await nonstick("push", "retry", "--all", "--json", namespace=namespace)
    assert retried.data == {first: "sent again"}
    assert (await nonstick("push", "list", "--json", namespace=namespace)).data["total"] == 0
    assert (await nonstick("push", "retry", first, namespace=namespace)).code == 1
