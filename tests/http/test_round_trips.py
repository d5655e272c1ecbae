"""What a turn costs in Redis: counted in commands, on a real engine, not in time."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio as redis

from server.app import limits
from stores import open_store, scripts
from tests.http.conftest import Dial, Serve, Served
from tests.support.client import Wire
from tests.support.engines import Engine


@pytest.fixture
def server(serve: Serve) -> Served:
    """Alone in its namespace, and without a heartbeat while it is watched."""
    return serve(heartbeat_seconds=60, presumed_dead_seconds=120)


@asynccontextmanager
async def counted(real_engine: Engine, server: Served) -> AsyncIterator[Counter[str]]:
    """The commands this server's namespace gets while the block runs, by operation; not those inside of scripts."""
    seen: Counter[str] = Counter()
    store = open_store(real_engine.url, "unused", limits(server.settings))
    names = {
        script.sha: script.name for script in (*store.turns.operations, *map(scripts.load, scripts.shared_names()))
    }
    async with redis.Redis.from_url(real_engine.url, decode_responses=True) as client, client.monitor() as monitor:
        yield seen
        marker = uuid.uuid4().hex
        await client.echo(marker)
        async for line in monitor.listen():
            command = line["command"]
            if marker in command:
                break
            if line["client_type"] == "lua" or str(server.settings.namespace) not in command:
                continue
            verb, _, rest = command.partition(" ")
            seen[names.get(rest.partition(" ")[0], verb)] += 1


@pytest.fixture(autouse=True)
async def warm(dial: Dial, bounded_memory: None) -> None:
    """Every script has been seen by the engine, and connections are open."""
    for text in ("echo", "stream 2"):
        await dial("1.0").send(text)
    await dial("1.0").list()


async def test_a_plain_blocking_turn_costs_exactly_two_round_trips(
    real_engine: Engine, server: Served, dial: Dial, wire: Wire
) -> None:
    async with counted(real_engine, server) as cost:
        assert (await dial(wire).send("echo")).task.state == "completed"
    assert cost == {"admit_turn": 1, "finish_turn": 1}


async def test_a_turn_in_a_known_context_costs_no_more(real_engine: Engine, server: Served, dial: Dial) -> None:
    asked = (await dial().send("ask")).task
    async with counted(real_engine, server) as cost:
        await dial().send("echo", context=asked.context)
        await dial().send("echo", context=asked.context, task=asked.id)
    assert cost == {"admit_turn": 2, "finish_turn": 2}


async def test_a_stream_costs_one_more_for_each_batch_of_events_and_nothing_else(
    real_engine: Engine, server: Served, dial: Dial, wire: Wire
) -> None:
    async with counted(real_engine, server) as cost, dial(wire).stream("stream 3") as reader:
        assert (await reader.rest())[-1].state == "completed"
    batches = cost.pop("append_events")
    assert 1 <= batches <= 3
    assert cost == {"admit_turn": 1, "finish_turn": 1}


async def test_a_fast_agent_does_not_pay_for_each_piece(real_engine: Engine, server: Served, dial: Dial) -> None:
    async with counted(real_engine, server) as cost, dial().stream("burst 1000") as reader:
        pieces = [item for item in await reader.rest() if item.kind == "artifact"]
    assert len(pieces) == 1000
    assert cost["append_events"] <= 10


async def test_a_silent_stream_asks_for_nothing(real_engine: Engine, server: Served, dial: Dial) -> None:
    async with counted(real_engine, server) as cost, dial().stream("echo") as reader:
        assert (await reader.rest())[-1].state == "completed"
    assert cost == {"admit_turn": 1, "finish_turn": 1}


async def test_a_replay_and_a_refusal_cost_one_round_trip_each(real_engine: Engine, server: Served, dial: Dial) -> None:
    message = str(uuid.uuid4())
    await dial().send("echo", message_id=message)
    async with counted(real_engine, server) as cost:
        assert (await dial().send("echo", message_id=message)).status == 200
        assert (await dial().send("echo other", message_id=message)).status == 422
    assert cost == {"admit_turn": 2}


async def test_a_page_of_tasks_costs_the_same_among_few_and_many(
    real_engine: Engine, server: Served, dial: Dial
) -> None:
    costs = []
    for count in (5, 25):
        for number in range(count):
            await dial().send(f"echo {number}", wait=False)
        async with counted(real_engine, server) as cost:
            answer = await dial().list(pageSize=5)
        assert len(answer.result["tasks"]) == 5
        costs.append(cost)
    assert costs[0] == costs[1]
    assert set(costs[0]) == {"list_page", "read_task"}
    assert costs[0]["list_page"] == 1
