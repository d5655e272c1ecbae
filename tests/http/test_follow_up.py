"""Messages that name a task: which ones continue it, and what the others are told."""

from __future__ import annotations

import asyncio
import uuid

from server.auth.caller import ANONYMOUS
from stores import Store
from stores.keys import ContextRef
from tests.http.conftest import Dial, Serve, queue_is, started
from tests.support.agents import Ledger
from tests.support.client import Wire
from tests.support.wait import wait_found


async def test_an_answer_continues_the_task_that_asked(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    done = (await dial(wire).send("echo yes", task=asked.id)).task
    assert (done.id, done.context, done.state) == (asked.id, asked.context, "completed")
    assert done.history == ["ask", "what?", "echo yes"]
    said = done.raw["history"][-1]
    assert (said["taskId"], said["contextId"]) == (asked.id, asked.context)


async def test_a_task_can_ask_more_than_once(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask 1")).task
    for number in (2, 3):
        again = (await dial(wire).send(f"ask {number}", task=asked.id, context=asked.context)).task
        assert (again.id, again.state) == (asked.id, "input_required")
    done = (await dial(wire).send("echo", task=asked.id)).task
    assert done.data["heard"] == ["ask 1", "ask 2", "ask 3", "echo"]


async def test_a_task_that_waits_for_a_credential_is_continued_like_one_that_asks(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("login")).task
    assert (await dial(wire).send("echo", task=asked.id)).task.state == "completed"


async def test_a_terminal_task_takes_no_message(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    for text in ("echo", "raise", "reject"):
        task = (await dial(wire).send(text)).task
        refused = await dial(wire).send("echo more", task=task.id)
        assert (refused.fault.code, refused.fault.details["taskId"]) == (-32004, task.id)
        assert len(ledger.notes("start", context=task.context)) == 1


async def test_an_unknown_task_is_not_created(dial: Dial, wire: Wire) -> None:
    for unknown in (str(uuid.uuid4()), "never-heard-of"):
        assert (await dial(wire).send("echo", task=unknown)).fault.code == -32001
        assert (await dial(wire).send("echo", task=unknown, context="c")).fault.code == -32001
        assert (await dial(wire).get(unknown)).fault.code == -32001


async def test_r07_a_context_that_is_not_the_tasks_is_refused(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    other = (await dial(wire).send("ask")).task
    for context in (other.context, uuid.uuid4().hex):
        refused = await dial(wire).send("echo", task=asked.id, context=context)
        assert refused.fault.code == -32602
    assert not ledger.notes("start", context=asked.context, text="echo")


async def test_a_mismatch_is_told_before_the_end_of_the_task(dial: Dial, wire: Wire) -> None:
    done = (await dial(wire).send("echo")).task
    assert (await dial(wire).send("echo", task=done.id, context=uuid.uuid4().hex)).fault.code == -32602


async def test_a_message_to_a_working_task_waits_for_its_turn(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    """The first turn ends in a question, so the waiting message finds the task open."""
    gate = uuid.uuid4().hex
    asked = (await dial(wire).send("ask")).task
    running = asyncio.create_task(dial(wire).send(f"hold {gate}", context=asked.context))
    await started(ledger, text=f"hold {gate}")
    answer = asyncio.create_task(dial(wire).send("echo yes", task=asked.id))
    await wait_found(lambda: queue_is(store, asked.context, 1))
    assert (await dial(wire).get(asked.id)).task.state == "input_required"
    ledger.open(gate)
    assert (await running).task.state == "completed"
    done = (await answer).task
    assert (done.id, done.state) == (asked.id, "completed")
    assert done.data["heard"] == ["ask", f"hold {gate}", "echo yes"]


async def test_a_queued_message_whose_task_ended_meanwhile_keeps_that_error(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    gate, message = uuid.uuid4().hex, str(uuid.uuid4())
    task = (await dial(wire).send(f"hold {gate}", wait=False)).task
    late = asyncio.create_task(dial(wire).send("echo late", task=task.id, message_id=message))
    await wait_found(lambda: queue_is(store, task.context, 1))
    ledger.open(gate)
    assert (await late).fault.code == -32004
    assert (await dial(wire).send("echo late", task=task.id, message_id=message)).fault.code == -32004
    assert not ledger.notes("start", message=message)
    assert (await dial(wire).get(task.id)).task.state == "completed"


async def test_a_question_keeps_its_context_reserved(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(max_contexts=1)
    asked = (await dial(wire, served).send("ask")).task
    assert (await dial(wire, served).send("echo")).status == 429
    assert (await dial(wire, served).send("echo", context=asked.context)).status == 200
    assert (await dial(wire, served).send("echo", task=asked.id)).task.state == "completed"
    assert (await dial(wire, served).send("echo")).status == 200


async def test_an_ended_context_is_not_live(dial: Dial, store: Store, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    ref = ContextRef.of(ANONYMOUS.key, asked.context).text
    assert await store.client.call("ZSCORE", store.keys.live, ref) is not None
    await dial(wire).send("echo", task=asked.id)
    assert await store.client.call("ZSCORE", store.keys.live, ref) is None
