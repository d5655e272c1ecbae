"""Agents that answer with a Message instead of a task."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from stores import Store
from tests.http.conftest import Dial, Serve, Served, queue_is, started
from tests.support.agents import Direct, Ledger
from tests.support.client import Wire
from tests.support.wait import wait_for_state, wait_found


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Served:
    return serve(Direct(tmp_path))


async def test_a_reply_is_the_result_itself_and_leaves_no_task(dial: Dial, wire: Wire) -> None:
    context = uuid.uuid4().hex
    item = (await dial(wire).send("reply", context=context)).item
    assert (item.kind, item.text, item.context) == ("message", "straight back", context)
    assert "taskId" not in item.raw
    assert (await dial("1.0").list(contextId=context)).result["tasks"] == []


async def test_a_retry_replays_the_reply(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    message = str(uuid.uuid4())
    first = (await dial(wire).send("reply", message_id=message)).item
    again = (await dial(wire).send("reply", message_id=message)).item
    assert again.raw == first.raw
    assert len(ledger.notes("start", message=message)) == 1


async def test_a_stream_of_a_reply_is_that_message_alone(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("reply") as reader:
        [item] = await reader.rest()
    assert (item.kind, item.text) == ("message", "straight back")


async def test_a_stream_of_an_agent_that_may_reply_begins_with_the_task_otherwise(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 2") as reader:
        items = await reader.rest()
    assert [item.kind for item in items] == ["task", "artifact", "artifact", "status"]


async def test_the_session_is_kept_by_a_reply(dial: Dial, wire: Wire) -> None:
    context = uuid.uuid4().hex
    await dial(wire).send("reply", context=context)
    assert (await dial(wire).send("reply", context=context)).item.data["heard"] == ["reply", "reply"]


async def test_a_task_that_was_shown_is_completed_and_not_lost(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    task = (await dial(wire).send("reply gate", wait=False)).task
    ledger.open("gate")
    done = await wait_for_state([dial(wire)], task.id, "completed")
    assert done.text == "straight back"


async def test_a_reply_to_a_queued_message_reaches_its_client(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    running = asyncio.create_task(dial(wire).send(f"hold {gate}", context=context))
    await started(ledger, context=context)
    queued = asyncio.create_task(dial(wire).send("reply", context=context))
    await wait_found(lambda: queue_is(store, context, 1))
    ledger.open(gate)
    await running
    assert (await queued).item.text == "straight back"
