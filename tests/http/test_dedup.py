"""A message sent again: its outcome is replayed, its running turn is named, other content is refused."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from stores import Store
from tests.http.conftest import Dial, Serve, queue_is, started
from tests.support.agents import Ledger
from tests.support.client import WIRES, Wire
from tests.support.wait import wait_found


@pytest.mark.parametrize("text", ["echo", "ask", "raise", "reject", "stream 3"])
async def test_a_retry_replays_the_outcome_without_running_the_agent(
    dial: Dial, ledger: Ledger, wire: Wire, text: str
) -> None:
    context, message = uuid.uuid4().hex, "msg-1"
    first = (await dial(wire).send(text, context=context, message_id=message)).task
    again = (await dial(wire).send(text, context=context, message_id=message)).task
    assert again.raw == first.raw
    assert len(ledger.notes("start", context=context)) == 1


async def test_the_same_message_in_another_dialect_is_the_same_message(dial: Dial, ledger: Ledger) -> None:
    context, message = uuid.uuid4().hex, str(uuid.uuid4())
    ids = {(await dial(wire).send("echo", context=context, message_id=message)).task.id for wire in WIRES}
    assert len(ids) == 1
    assert len(ledger.notes("start", context=context)) == 1


async def test_the_same_id_in_another_context_is_another_message(dial: Dial, wire: Wire) -> None:
    one = (await dial(wire).send("echo", context=uuid.uuid4().hex, message_id="1")).task
    other = (await dial(wire).send("echo", context=uuid.uuid4().hex, message_id="1")).task
    assert one.id != other.id


@pytest.mark.parametrize("wait", [True, False])
async def test_r04_a_duplicate_in_flight_is_told_which_task_it_is(
    dial: Dial, ledger: Ledger, wire: Wire, wait: bool
) -> None:
    gate, message = uuid.uuid4().hex, str(uuid.uuid4())
    running = asyncio.create_task(dial(wire).send(f"hold {gate}", message_id=message, wait=wait))
    task_id = (await started(ledger, message=message))["task"]

    refused = await dial(wire).send(f"hold {gate}", message_id=message)

    assert (refused.status, refused.fault.code, refused.fault.reason) == (409, -32051, "MESSAGE_IN_FLIGHT")
    assert refused.fault.details["taskId"] == task_id
    assert int(refused.headers["retry-after"]) >= 1
    ledger.open(gate)
    assert (await running).task.id == task_id


async def test_r04_a_duplicate_of_a_queued_message_is_in_flight_too(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    context, gate, message = uuid.uuid4().hex, uuid.uuid4().hex, str(uuid.uuid4())
    await dial(wire).send(f"hold {gate}", context=context, wait=False)
    queued = (await dial(wire).send("echo", context=context, message_id=message, wait=False)).task
    refused = await dial(wire).send("echo", context=context, message_id=message)
    assert (refused.status, refused.fault.details["taskId"]) == (409, queued.id)
    ledger.open(gate)


async def test_r03_a_retry_of_an_ended_message_never_queues(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    context, gate, message = uuid.uuid4().hex, uuid.uuid4().hex, str(uuid.uuid4())
    first = (await dial(wire).send("echo", context=context, message_id=message)).task
    running = asyncio.create_task(dial(wire).send(f"hold {gate}", context=context))
    await started(ledger, text=f"hold {gate}")
    assert (await dial(wire).send("echo", context=context, message_id=message)).task.raw == first.raw
    assert not running.done()
    ledger.open(gate)
    await running


async def test_a_retry_of_the_message_that_completed_a_task_replays_it(dial: Dial, wire: Wire) -> None:
    """The message is looked up before its task is judged: the task is closed by now."""
    asked = (await dial(wire).send("ask")).task
    message = str(uuid.uuid4())
    done = (await dial(wire).send("echo yes", task=asked.id, message_id=message)).task
    assert (await dial(wire).send("echo yes", task=asked.id, message_id=message)).task.raw == done.raw
    assert (await dial(wire).send("echo more", task=asked.id)).fault.code == -32004


async def test_a_replay_shows_the_task_as_it_is_now(dial: Dial, wire: Wire) -> None:
    message = str(uuid.uuid4())
    asked = (await dial(wire).send("ask", message_id=message)).task
    await dial(wire).send("echo yes", task=asked.id)
    assert (await dial(wire).send("ask", message_id=message)).task.state == "completed"


async def test_the_same_id_with_other_content_is_refused(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    message = str(uuid.uuid4())
    first = (await dial(wire).send("echo one", message_id=message)).task
    refused = await dial(wire).send("echo two", message_id=message)
    assert (refused.status, refused.fault.code, refused.fault.reason) == (422, -32052, "MESSAGE_ID_REUSED")
    assert refused.fault.details["taskId"] == first.id
    assert len(ledger.notes("start", message=message)) == 1


async def test_the_same_id_with_other_content_replays_where_that_is_chosen(
    dial: Dial, serve: Serve, wire: Wire
) -> None:
    served = serve(message_id_reuse="replay")
    message = str(uuid.uuid4())
    first = (await dial(wire, served).send("echo one", message_id=message)).task
    assert (await dial(wire, served).send("echo two", message_id=message)).task.raw == first.raw


async def test_r02_without_a_cache_only_what_is_in_flight_is_recognised(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(a2a_message_cache_ttl_seconds=0)
    context, message = uuid.uuid4().hex, str(uuid.uuid4())
    running = asyncio.create_task(dial(wire, served).send("hold gate", context=context, message_id=message))
    await started(served.ledger, message=message)
    assert (await dial(wire, served).send("hold gate", context=context, message_id=message)).status == 409
    served.ledger.open("gate")
    first = (await running).task
    again = (await dial(wire, served).send("hold gate", context=context, message_id=message)).task
    assert again.id != first.id
    assert len(served.ledger.notes("start", message=message)) == 2


async def test_a_refused_message_is_not_remembered(dial: Dial, ledger: Ledger, serve: Serve, wire: Wire) -> None:
    served = serve(queue_limit=0)
    context, message = uuid.uuid4().hex, str(uuid.uuid4())
    await dial(wire, served).send("hold gate", context=context, wait=False)
    assert (await dial(wire, served).send("echo", context=context, message_id=message)).status == 429
    served.ledger.open("gate")

    async def accepted() -> bool:
        return (await dial(wire, served).send("echo", context=context, message_id=message)).status == 200

    await wait_found(accepted)


async def test_turns_of_one_context_run_in_the_order_they_came(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    sends = []
    for number in range(6):
        sends.append(asyncio.create_task(dial(wire).send(f"hold {gate} {number}", context=context)))
        if number == 0:
            await started(ledger, context=context)
        else:
            await wait_found(lambda number=number: queue_is(store, context, number))  # type: ignore[misc]
    ledger.open(gate)
    tasks = [answer.task for answer in await asyncio.gather(*sends)]
    assert [len(task.data["heard"]) for task in tasks] == [1, 2, 3, 4, 5, 6]
    assert tasks[-1].data["heard"] == [f"hold {gate} {number}" for number in range(6)]
