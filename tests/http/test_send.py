"""Sending a message and getting its outcome, in every dialect and binding."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.http.conftest import Dial, started
from tests.support.agents import Ledger
from tests.support.client import Wire
from tests.support.wait import wait_for_state


async def test_a_message_without_a_context_gets_a_new_task_and_a_new_context(dial: Dial, wire: Wire) -> None:
    answer = await dial(wire).send("echo hello")
    task = answer.task
    assert (task.state, task.text) == ("completed", "echo: echo hello")
    assert task.id != task.context
    uuid.UUID(task.id)
    assert task.history[0] == "echo hello"
    if wire != "rest":
        assert (answer.body["jsonrpc"], answer.body["id"]) == ("2.0", "r1")
    kind = "application/a2a+json" if wire == "rest" else "application/json"
    assert answer.headers["content-type"].startswith(kind)


async def test_the_stored_message_carries_its_task_and_context(dial: Dial, wire: Wire) -> None:
    task = (await dial(wire).send("echo")).task
    said = task.raw["history"][0]
    assert (said["taskId"], said["contextId"]) == (task.id, task.context)


async def test_each_message_of_a_context_is_a_task_of_its_own(dial: Dial, wire: Wire) -> None:
    context = str(uuid.uuid4())
    first = (await dial(wire).send("echo 1", context=context)).task
    second = (await dial(wire).send("echo 2", context=context)).task
    assert first.context == second.context == context
    assert first.id != second.id
    assert second.data["heard"] == ["echo 1", "echo 2"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("echo", "completed"),
        ("ask", "input_required"),
        ("login", "auth_required"),
        ("reject", "rejected"),
        ("give_up", "failed"),
        ("raise", "failed"),
    ],
)
async def test_the_outcome_of_the_agent_is_the_state_of_the_task(dial: Dial, wire: Wire, text: str, state: str) -> None:
    task = (await dial(wire).send(text)).task
    assert task.state == state
    assert (await dial(wire).get(task.id)).task.raw == task.raw


async def test_an_exception_is_told_as_data_without_a_traceback(dial: Dial, wire: Wire) -> None:
    answer = await dial(wire).send("raise")
    assert answer.task.data == {"error_type": "ValueError", "error_info": "as told"}
    assert "Traceback" not in str(answer.body)


async def test_artifacts_are_whole_in_the_answer(dial: Dial, wire: Wire) -> None:
    task = (await dial(wire).send("stream 5")).task
    assert task.artifacts == ["0 1 2 3 4 "]
    assert task.raw["artifacts"][0]["name"] == "numbers"


async def test_a_task_is_the_same_in_every_wire(dial: Dial) -> None:
    task = (await dial("1.0").send("stream 2")).task
    rpc, rest, old = [(await dial(wire).get(task.id)).task for wire in ("1.0", "rest", "0.3")]
    assert rpc.raw == rest.raw
    assert old.raw["kind"] == "task"
    assert old.raw["status"]["state"] == "completed"
    assert (old.id, old.context, old.text, old.artifacts) == (rpc.id, rpc.context, rpc.text, rpc.artifacts)


async def test_a_send_that_does_not_wait_is_answered_while_the_agent_works(
    dial: Dial, ledger: Ledger, wire: Wire
) -> None:
    gate = uuid.uuid4().hex
    task = (await dial(wire).send(f"hold {gate}", wait=False)).task
    assert task.state == "working"
    await started(ledger, task=task.id)
    ledger.open(gate)
    await wait_for_state([dial(wire)], task.id, "completed")


async def test_a_queued_send_that_does_not_wait_is_submitted(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    await dial(wire).send(f"hold {gate}", context=context, wait=False)
    queued = (await dial(wire).send("echo", context=context, wait=False)).task
    assert queued.state == "submitted"
    ledger.open(gate)
    await wait_for_state([dial(wire)], queued.id, "completed")


async def test_r17_a_client_that_gives_up_waiting_changes_nothing(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    gate, message = uuid.uuid4().hex, str(uuid.uuid4())
    request = asyncio.create_task(dial(wire).send(f"hold {gate}", message_id=message))
    task_id = (await started(ledger, message=message))["task"]
    request.cancel()
    await asyncio.wait({request})
    ledger.open(gate)
    await wait_for_state([dial(wire)], task_id, "completed")


@pytest.mark.parametrize(("wire", "length", "shown"), [
    ("0.3", None, 3), ("0.3", 0, 3), ("0.3", 1, 1), ("1.0", None, 3), ("1.0", 0, 0), ("1.0", 1, 1), ("rest", 2, 2),
])  # fmt: skip
async def test_history_is_cut_to_the_length_asked_for(dial: Dial, wire: Wire, length: int | None, shown: int) -> None:
    asked = (await dial(wire).send("ask")).task
    done = (await dial(wire).send("echo yes", task=asked.id, history=length)).task
    whole = ["ask", "what?", "echo yes"]
    assert done.history == (whole[-shown:] if shown else [])
    assert (await dial(wire).get(asked.id, history=length)).task.history == done.history
    assert done.text == "echo: echo yes"
    if shown == 0:
        assert "history" not in done.raw


async def test_parts_of_every_kind_reach_the_task_unchanged(dial: Dial) -> None:
    parts = [
        {"text": "echo"},
        {"data": {"deep": [1, 2.5, None, "ü\u2028"]}},
        {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"},
        {"url": "https://files.example/b.png", "mediaType": "image/png"},
    ]
    task = (await dial("1.0").send("", parts=parts)).task
    assert task.raw["history"][0]["parts"] == parts


async def test_the_wish_for_a_skill_reaches_the_history(dial: Dial, wire: Wire) -> None:
    task = (await dial(wire).send("echo", metadata={"skill": "obey"})).task
    assert task.raw["history"][0]["metadata"] == {"skill": "obey"}


async def test_r05_a_first_message_with_a_uuid_finds_its_context_again(dial: Dial, wire: Wire) -> None:
    message = str(uuid.uuid4())
    first = (await dial(wire).send("echo", message_id=message)).task
    again = (await dial(wire).send("echo", message_id=message)).task
    assert again.raw == first.raw


async def test_r05_a_first_message_with_any_other_id_begins_a_new_context(dial: Dial, wire: Wire) -> None:
    first = (await dial(wire).send("echo", message_id="1")).task
    again = (await dial(wire).send("echo", message_id="1")).task
    assert (first.context, first.id) != (again.context, again.id)
