"""R15: the session is saved by a turn that ends well, and by nothing else."""

from __future__ import annotations

import uuid

import pytest

from tests.http.conftest import Dial, Serve, started
from tests.support.agents import Ledger
from tests.support.client import Wire


async def heard(dial: Dial, wire: Wire, context: str) -> list[str]:
    task = (await dial(wire).send("echo last", context=context)).task
    seen: list[str] = task.data["heard"]
    return seen


@pytest.mark.parametrize(("text", "kept"), [
    ("echo", True), ("ask", True), ("reject", True), ("give_up", True), ("raise", False),
])  # fmt: skip
async def test_r15_an_agent_that_raises_leaves_the_session_as_it_was(
    dial: Dial, wire: Wire, text: str, kept: bool
) -> None:
    context = uuid.uuid4().hex
    await dial(wire).send("echo first", context=context)
    await dial(wire).send(text, context=context)
    assert await heard(dial, wire, context) == ["echo first", *([text] if kept else []), "echo last"]


async def test_a_canceled_turn_keeps_what_its_cancel_hook_saved_and_not_what_the_turn_did(
    dial: Dial, ledger: Ledger, wire: Wire
) -> None:
    task = (await dial(wire).send("hold never", wait=False)).task
    await started(ledger, task=task.id)
    await dial(wire).cancel(task.id)
    assert await heard(dial, wire, task.context) == ["(canceled)", "echo last"]


async def test_contexts_do_not_see_each_others_session(dial: Dial, wire: Wire) -> None:
    await dial(wire).send("echo one", context=uuid.uuid4().hex)
    assert await heard(dial, wire, uuid.uuid4().hex) == ["echo last"]


async def test_a_session_beyond_the_limit_fails_the_turn_and_is_not_saved(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(max_session_bytes=2000)
    context = uuid.uuid4().hex
    await dial(wire, served).send("echo first", context=context)
    task = (await dial(wire, served).send("hoard 3000", context=context)).task
    assert (task.state, task.data["error_type"]) == ("failed", "session_too_large")
    last = (await dial(wire, served).send("echo last", context=context)).task
    assert last.data["heard"] == ["echo first", "echo last"]
