"""Limits: what is refused with 429, what fails the turn, and that everything goes on afterwards."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.http.conftest import Dial, Serve
from tests.support.client import Wire
from tests.support.wait import wait_for_state, wait_until


async def test_a_full_queue_refuses_and_frees_itself(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(queue_limit=2)
    speaker = dial(wire, served)
    context = uuid.uuid4().hex
    first = (await speaker.send("hold gate", context=context, wait=False)).task
    for _ in range(2):
        assert (await speaker.send("echo", context=context, wait=False)).status == 200
    refused = await speaker.send("echo", context=context)
    assert (refused.status, refused.fault.code, refused.fault.reason) == (429, -32053, "QUEUE_FULL")
    assert int(refused.headers["retry-after"]) >= 1
    assert (await speaker.send("echo")).status == 200
    served.ledger.open("gate")
    await wait_for_state([speaker], first.id, "completed")
    assert (await speaker.send("echo", context=context)).status == 200


async def test_the_cap_on_contexts_refuses_new_ones_only(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(max_contexts=2)
    speaker = dial(wire, served)
    held = [(await speaker.send("hold gate", wait=False)).task for _ in range(2)]
    refused = await speaker.send("echo")
    assert (refused.status, refused.fault.code, refused.fault.reason) == (429, -32053, "CONTEXT_LIMIT")
    assert int(refused.headers["retry-after"]) >= 1
    assert (await speaker.send("echo", context=held[0].context, wait=False)).status == 200
    served.ledger.open("gate")
    for task in held:
        await wait_for_state([speaker], task.id, "completed")
    await asyncio.gather(*(speaker.send("echo", context=task.context) for task in held))
    assert (await speaker.send("echo")).status == 200


async def test_no_cap_is_no_cap(dial: Dial, serve: Serve) -> None:
    served = serve(max_contexts=0)
    answers = await asyncio.gather(*(dial("1.0", served).send("hold gate", wait=False) for _ in range(40)))
    assert {answer.status for answer in answers} == {200}
    served.ledger.open("gate")


async def test_a_stream_is_refused_with_the_same_status(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(max_contexts=1)
    await dial(wire, served).send("hold gate", wait=False)
    async with dial(wire, served).stream("echo") as reader:
        refused = await reader.answer()
    assert (refused.status, refused.fault.reason) == (429, "CONTEXT_LIMIT")
    assert "retry-after" in refused.headers
    served.ledger.open("gate")


async def test_a_context_holds_so_many_open_tasks(dial: Dial, serve: Serve, wire: Wire) -> None:
    speaker = dial(wire, serve(max_open_tasks=2))
    context = uuid.uuid4().hex
    asked = [(await speaker.send("ask", context=context)).task for _ in range(2)]
    assert (await speaker.send("echo", context=context)).status == 429
    assert (await speaker.send("echo", task=asked[0].id)).task.state == "completed"
    assert (await speaker.send("echo", context=context)).status == 200


@pytest.mark.parametrize(
    ("limit", "text", "error_type"),
    [
        ({"max_events_per_task": 10}, "burst 20", "too_many_events"),
        ({"max_task_bytes": 2000}, "burst 20 500", "task_too_large"),
    ],
)
async def test_an_agent_that_runs_away_fails_and_its_context_goes_on(
    dial: Dial, serve: Serve, wire: Wire, limit: dict[str, int], text: str, error_type: str
) -> None:
    speaker = dial(wire, serve(**limit))
    task = (await speaker.send(text)).task
    assert (task.state, task.data["error_type"]) == ("failed", error_type)
    assert (await speaker.send("echo", context=task.context)).task.state == "completed"


async def test_a_worker_takes_many_turns_at_once(dial: Dial, serve: Serve) -> None:
    served = serve()
    sends = [asyncio.create_task(dial("1.0", served).send("hold gate")) for _ in range(100)]
    await wait_until(lambda: len(served.ledger.notes("start")) == 100)
    served.ledger.open("gate")
    assert {answer.task.state for answer in await asyncio.gather(*sends)} == {"completed"}
