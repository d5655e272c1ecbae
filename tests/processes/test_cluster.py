"""Real workers on a real Redis Cluster: the same promises, and what clients see while a primary dies."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from stores import Store, open_store
from tests.processes import test_cancel, test_death, test_dedup, test_order, test_push, test_streams
from tests.processes.conftest import Callers, quick_settings
from tests.push.hooks import Hook
from tests.support.agents import Ledger
from tests.support.client import Answer
from tests.support.clusters import Cluster, cluster
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.lapse import assert_all_keys_lapse
from tests.support.wait import wait_found

WORKERS = 4
FAILOVER_SECONDS = 60.0


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Cluster]:
    with cluster(replicas=True, timeout_ms=1000) as running:
        yield running


@pytest.fixture(scope="module")
def shared_fleet(real_engine: Cluster) -> Iterator[Fleet]:
    settings = quick_settings(
        real_engine,  # type: ignore[arg-type]  # an address is all that is asked of it
        push_notifications_enabled=True,
        push_allow_private_targets_for_tests_only=True,
        push_retry_seconds=0.1,
    )
    with (
        tempfile.TemporaryDirectory(prefix="ns-cluster-") as folder,
        running_fleet(WORKERS, settings, Path(folder)) as running,
    ):
        yield running


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


# The tests of one node that have to do with more than one slot, as they are.
test_a_killed_worker = test_death.test_the_turn_of_a_killed_worker_fails_and_its_queue_runs_elsewhere
test_r11_a_worker_back_from_the_dead = test_death.test_r11_a_worker_that_slept_through_its_death_can_write_nothing
test_r09_an_unanswered_admission = test_death.test_r09_a_turn_whose_admission_was_never_answered_is_found_and_run
test_a_dedup_storm = test_dedup.test_two_hundred_identical_messages_at_once_run_the_agent_once
test_a_retry_elsewhere = test_dedup.test_a_retry_on_another_worker_replays_the_task
test_order_on_four_workers = test_order.test_messages_run_in_the_order_they_were_accepted_on_four_workers
test_a_cancel_elsewhere = test_cancel.test_a_cancel_on_another_worker_stops_the_agent_before_it_is_answered
test_r22_a_queued_turn_is_canceled = test_cancel.test_r22_a_queued_turn_is_canceled_on_another_worker_and_never_runs
test_a_stream_elsewhere = (
    test_streams.test_a_stream_on_one_worker_of_a_turn_on_another_is_joined_and_resumed_on_two_more
)
test_r42_a_callback_again = test_push.test_r42_what_was_sent_and_not_settled_is_sent_again_with_the_same_id
test_a_killed_workers_callback = test_push.test_a_killed_workers_turn_is_told_as_failed_by_another


async def test_a_primary_dies_under_load_and_its_replica_takes_over(
    real_engine: Cluster, fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    """Callers who retry as the answers say get every outcome, each message once; others are told honestly. What was
    acknowledged before is waited for to be on the replica: an asynchronous failover may lose the rest."""
    chance = random.Random(7)
    ended: list[tuple[str, str]] = []
    seen: Counter[str] = Counter()
    slowest = 0.0
    going = True

    async def once(context: str, message: str) -> Answer | None:
        node = chance.choice(fleet.nodes)
        try:
            return await at(node).send("echo", context=context, message_id=message)
        except httpx.TransportError:
            return None

    async def caller(number: int) -> None:
        nonlocal slowest
        context, turn = f"load-{number}-{uuid.uuid4().hex[:6]}", 0
        while going:
            turn += 1
            message = str(uuid.uuid4())
            deadline = time.monotonic() + FAILOVER_SECONDS
            while True:
                began = time.monotonic()
                answer = await once(context, message)
                slowest = max(slowest, time.monotonic() - began)
                seen[str(answer.status) if answer else "broken"] += 1
                if answer is not None and answer.status == 200:
                    seen[answer.task.state] += 1
                    ended.append((context, message))
                    break
                if answer is not None:
                    assert answer.status in (409, 503), answer
                    assert int(answer.headers["retry-after"]) >= 1
                assert time.monotonic() < deadline, f"no answer for {message} on {context}: {seen}"
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.01)

    callers = [asyncio.create_task(caller(number)) for number in range(12)]
    await wait_found(lambda: _count(ended, 60), seconds=FAILOVER_SECONDS)
    # Turns of many contexts that run all through it, on every shard.
    gate, held = uuid.uuid4().hex, [f"held-{uuid.uuid4().hex[:8]}" for _ in range(9)]
    through = [
        asyncio.create_task(at(fleet.nodes[place % WORKERS]).send(f"hold {gate}", context=context))
        for place, context in enumerate(held)
    ]
    await wait_found(lambda: _begun(ledger, held))
    for primary in await store.client.nodes():
        assert await primary.call("WAIT", 1, 10_000) == 1
    victim = real_engine.primaries[0]
    before = set(ended)
    began = time.monotonic()
    await asyncio.to_thread(victim.kill)

    async def replaced() -> bool:
        probe = open_store(real_engine.url, "probe")
        try:
            ports = {node.url.rpartition(":")[2].partition("/")[0] for node in await probe.client.nodes()}
            await probe.ping()
        except Exception:
            return False
        finally:
            await probe.close()
        return str(victim.port) not in ports

    await wait_found(replaced, seconds=FAILOVER_SECONDS, what="a replica in the place of the primary")
    took = time.monotonic() - began
    after = len(ended)
    await wait_found(lambda: _count(ended, after + 60), seconds=FAILOVER_SECONDS)
    going = False
    await asyncio.gather(*callers)
    ledger.open(gate)
    assert [answer.task.state for answer in await asyncio.gather(*through)] == ["completed"] * 9
    print(f"failover {took:.1f} s, slowest answer {slowest:.1f} s, {dict(seen)}")  # shown with -s

    assert len(before) >= 60
    assert set(seen) <= {"200", "409", "503", "broken", "completed", "failed"}
    runs = Counter(note["message"] for note in ledger.notes("end"))
    twice = [message for _, message in ended if runs[message] > 1]
    # At-least-once is what an asynchronous failover leaves, for what was under way in that moment alone.
    assert len(twice) <= len(callers)
    for node in fleet.nodes:
        assert (await at(node).send("echo")).task.state == "completed"
    # And nothing stays behind: what a dead primary forgot to give back, the sweep finds.
    await wait_found(lambda: _nothing_lives(store), seconds=FAILOVER_SECONDS, what="every place given back")
    await assert_all_keys_lapse(real_engine.url)


async def _count(ended: list[tuple[str, str]], least: int) -> bool:
    return len(ended) >= least


async def _begun(ledger: Ledger, contexts: list[str]) -> bool:
    return all(ledger.notes("start", context=context) for context in contexts)


async def _nothing_lives(store: Store) -> bool:
    return not await store.client.call("ZRANGE", store.keys.live, 0, -1)
