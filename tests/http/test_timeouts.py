"""The time one turn may take: counted from its start, not extended, and zero is no bound."""

from __future__ import annotations

import uuid

import pytest

from tests.http.conftest import Dial, Serve, Served, started
from tests.support.client import Wire
from tests.support.wait import wait_for_state


@pytest.fixture
def server(serve: Serve) -> Served:
    return serve(task_timeout_seconds=1, cancel_wait_seconds=1)


async def test_a_turn_beyond_its_time_is_canceled_and_says_why(dial: Dial, server: Served, wire: Wire) -> None:
    task = (await dial(wire).send("work never")).task
    assert task.state == "canceled"
    assert task.metadata["cancel_reason"] == "timeout"
    assert [note["what"] for note in server.ledger.notes(task=task.id)] == ["start", "stopped", "on_cancel"]
    assert (await dial(wire).send("echo", context=task.context)).task.state == "completed"


async def test_a_later_message_does_not_extend_it_and_waiting_does_not_count(dial: Dial, server: Served) -> None:
    """Three turns of nearly the whole time each would be beyond it together."""
    context = uuid.uuid4().hex
    first = (await dial().send("hold never 1", context=context, wait=False)).task
    await started(server.ledger, task=first.id)
    second = (await dial().send("hold gate 2", context=context, wait=False)).task
    assert (await dial().send("echo 3", context=context)).task.state in ("completed", "working")
    assert (await dial().get(first.id)).task.state == "canceled"
    assert (await dial().get(second.id)).task.state == "canceled"


async def test_a_waiting_task_has_no_time_bound(dial: Dial, server: Served) -> None:
    asked = (await dial().send("ask")).task
    timed_out = (await dial().send("hold never")).task
    assert timed_out.state == "canceled"
    assert (await dial().get(asked.id)).task.state == "input_required"
    assert (await dial().send("echo", task=asked.id)).task.state == "completed"


async def test_a_stubborn_agent_does_not_hold_its_context_beyond_its_time(dial: Dial, server: Served) -> None:
    task = (await dial().send("defy gate")).task
    assert (task.state, task.metadata["cancel_reason"], task.metadata["stopped"]) == ("canceled", "timeout", False)
    assert (await dial().send("echo", context=task.context)).task.state == "completed"
    server.ledger.open("gate")


async def test_zero_is_no_bound(dial: Dial, serve: Serve) -> None:
    """The bounded server's turn is over while the unbounded one's still runs."""
    free = serve(task_timeout_seconds=0)
    held = (await dial("1.0", free).send("hold gate", wait=False)).task
    bounded = (await dial().send("hold never")).task
    assert bounded.state == "canceled"
    assert (await dial("1.0", free).get(held.id)).task.state == "working"
    free.ledger.open("gate")
    await wait_for_state([dial("1.0", free)], held.id, "completed")
