"""What one caller may hold at once: admit_turn counts it exactly, whoever dies, and gives it back by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from stores import Store
from stores.records import AdmitReply, Admitted, InFlight, Limits, Queued, Refused, Replayed
from tests.contract.builders import (
    CALLER,
    admission,
    admit,
    eventually,
    finish,
    joining,
    queued,
    running,
    ttl,
    waiting,
    with_limits,
)

OTHER = "0" * 32


def words(replies: list[AdmitReply]) -> Counter[str]:
    return Counter(reply.why if isinstance(reply, Refused) else type(reply).__name__ for reply in replies)


async def held(store: Store, what: str, caller: str = CALLER) -> int:
    return int(await store.client.call("ZCARD", f"{store.keys.index(caller)}:{what}"))


async def test_without_limits_nothing_is_counted(store: Store) -> None:
    await finish(store, await running(store))
    await waiting(store, context_id="c2")
    assert [await held(store, what) for what in ("live", "busy")] == [0, 0]
    assert await store.client.call("EXISTS", store.keys.rate(CALLER)) == 0


class TestRunningTurns:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(caller_running=2)

    async def test_one_more_is_refused_and_stores_nothing(self, store: Store) -> None:
        for name in ("c1", "c2"):
            await running(store, context_id=name)
        asked = admission("c3")
        assert await admit(store, asked) == Refused("caller_running")
        assert await store.client.call("EXISTS", store.keys.context(asked.context)) == 0
        assert isinstance(await admit(store, context_id="c3", caller=OTHER), Admitted)

    async def test_what_waits_behind_a_running_turn_is_no_more(self, store: Store) -> None:
        first = await running(store, context_id="c1")
        await running(store, context_id="c2")
        await queued(store, context_id="c1", message_id="m2")
        following = (await finish(store, first)).next
        assert following is not None
        assert await admit(store, context_id="c3") == Refused("caller_running")
        await finish(store, following)
        assert isinstance(await admit(store, context_id="c3"), Admitted)

    async def test_a_repeat_of_an_accepted_message_is_answered_at_the_limit(self, store: Store) -> None:
        ended, going = admission("c0"), admission("c1")
        reply = await admit(store, ended)
        assert isinstance(reply, Admitted)
        await finish(store, reply.ticket)
        await admit(store, going)
        await running(store, context_id="c2")
        assert isinstance(await admit(store, replace(ended, token="other")), Replayed)
        assert await admit(store, replace(going, token="other")) == InFlight(going.task_id)

    async def test_a_cancel_is_never_refused_by_it(self, store: Store) -> None:
        idle = await waiting(store, context_id="c0")
        for name in ("c1", "c2"):
            await running(store, context_id=name)
        assert await admit(store, joining(idle, "said")) == Refused("caller_running")
        assert isinstance(await admit(store, joining(idle, "cancel", quiet=True)), Admitted)

    async def test_it_is_exact_across_the_fleet(self, fleet: list[Store]) -> None:
        asked = [admission(f"c{number}") for number in range(24)]
        replies = await asyncio.gather(*(admit(fleet[n % 4], one, f"w{n % 4}") for n, one in enumerate(asked)))
        assert words(replies) == {"Admitted": 2, "caller_running": 22}

    async def test_a_dead_workers_turn_gives_its_place_back(self, store: Store) -> None:
        lost = await running(store, context_id="c1", worker="dead")
        await running(store, context_id="c2")
        taken = await store.turns.take_over("heir", lost.context, owner="dead")
        assert taken is not None
        assert await admit(store, context_id="c3") == Refused("caller_running")
        await finish(store, taken[1], "failed")
        assert isinstance(await admit(store, context_id="c3"), Admitted)

    async def test_a_turn_that_ends_on_a_worker_without_limits_is_given_back(self, store: Store) -> None:
        tickets = [await running(store, context_id=name) for name in ("c1", "c2")]
        await finish(with_limits(store, caller_running=0), tickets[0])

        async def given_back() -> bool:
            return await held(store, "busy") == 1

        # On a Cluster it is given back by a call of its own, which nobody waits for.
        await eventually(given_back)
        assert isinstance(await admit(store, context_id="c3"), Admitted)

    @pytest.mark.usefixtures("one_node")
    async def test_a_place_lapses_with_the_context_at_the_latest(self, store: Store) -> None:
        short = with_limits(store, context_ms=60, caller_running=1)
        await running(short, context_id="c1")
        assert await admit(short, context_id="c2") == Refused("caller_running")
        await eventually(lambda: _admitted(short, "c2"))
        assert await ttl(store, f"{store.keys.index(CALLER)}:busy") <= 60


class TestLiveContexts:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(caller_contexts=2)

    async def test_a_context_that_waits_for_its_caller_counts(self, store: Store) -> None:
        first = await waiting(store, context_id="c1")
        await waiting(store, context_id="c2")
        assert await admit(store, context_id="c3") == Refused("caller_contexts")
        assert isinstance(await admit(store, context_id="c3", caller=OTHER), Admitted)
        going_on = await admit(store, joining(first, "m2"))
        assert isinstance(going_on, Admitted)
        assert isinstance(await admit(store, context_id="c1", message_id="m3"), Queued)
        following = (await finish(store, going_on.ticket)).next
        assert following is not None
        await finish(store, following)
        assert isinstance(await admit(store, context_id="c3"), Admitted)

    async def test_it_is_exact_across_the_fleet(self, fleet: list[Store]) -> None:
        asked = [admission(f"c{number}") for number in range(24)]
        replies = await asyncio.gather(*(admit(fleet[n % 4], one, f"w{n % 4}") for n, one in enumerate(asked)))
        assert words(replies) == {"Admitted": 2, "caller_contexts": 22}

    async def test_an_idle_context_lapses_when_the_setting_says_so(self, store: Store) -> None:
        brief = with_limits(store, caller_contexts=1, idle_ms=60)
        await waiting(brief, context_id="c1")
        assert await admit(brief, context_id="c2") == Refused("caller_contexts")
        await eventually(lambda: _admitted(brief, "c2"))


class TestStoredTasks:
    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(caller_tasks=2)

    async def test_open_and_closed_ones_count(self, store: Store) -> None:
        await finish(store, await running(store, context_id="c1"))
        idle = await waiting(store, context_id="c2")
        assert await admit(store, context_id="c3") == Refused("caller_tasks")
        assert isinstance(await admit(store, context_id="c3", caller=OTHER), Admitted)
        assert isinstance(await admit(store, joining(idle, "m2")), Admitted)

    async def test_a_direct_reply_leaves_none(self, store: Store) -> None:
        for number in range(4):
            await finish(store, await running(store, context_id=f"c{number}"), reply="hello")

    async def test_a_closed_one_counts_until_it_lapses(self, store: Store) -> None:
        brief = with_limits(store, caller_tasks=1, task_ms=60)
        await finish(brief, await running(brief, context_id="c1"))
        assert await admit(brief, context_id="c2") == Refused("caller_tasks")
        await eventually(lambda: _admitted(brief, "c2"))

    async def test_it_is_exact_across_the_fleet(self, fleet: list[Store]) -> None:
        asked = [admission(f"c{number}") for number in range(24)]
        replies = await asyncio.gather(*(admit(fleet[n % 4], one, f"w{n % 4}") for n, one in enumerate(asked)))
        assert words(replies) == {"Admitted": 2, "caller_tasks": 22}


async def _admitted(store: Store, context_id: str) -> bool:
    return isinstance(await admit(store, context_id=context_id), Admitted)
