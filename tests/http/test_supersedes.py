"""An agent whose new turn answers the old one's question: the earlier open task is closed."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.http.conftest import Dial, Serve, Served
from tests.support.agents import Superseding
from tests.support.client import Wire


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Served:
    return serve(Superseding(tmp_path))


async def test_a_new_message_completes_the_contexts_waiting_task(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    new = (await dial(wire).send("echo", context=asked.context)).task
    assert (new.state, new.id != asked.id) == ("completed", True)
    closed = (await dial(wire).get(asked.id)).task
    assert (closed.state, closed.metadata["superseded_by"]) == ("completed", new.id)


async def test_the_streams_of_a_superseded_task_end(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    async with dial(wire).subscribe(asked.id) as reader:
        assert (await reader.next()).state == "input_required"
        new = (await dial(wire).send("echo", context=asked.context)).task
        [last] = await reader.rest()
    assert (last.kind, last.state, last.metadata["superseded_by"]) == ("status", "completed", new.id)


async def test_r23_a_superseded_task_can_not_be_canceled_or_continued(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    await dial(wire).send("echo", context=asked.context)
    assert (await dial(wire).cancel(asked.id)).fault.code == -32002
    assert (await dial(wire).send("echo", task=asked.id)).fault.code == -32004


async def test_a_message_that_names_the_task_continues_it(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    done = (await dial(wire).send("echo", task=asked.id)).task
    assert (done.id, done.state) == (asked.id, "completed")
    assert "superseded_by" not in done.metadata


async def test_other_contexts_are_left_alone(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    await dial(wire).send("echo", context=uuid.uuid4().hex)
    assert (await dial(wire).get(asked.id)).task.state == "input_required"


async def test_without_it_a_context_may_hold_several_open_tasks(dial: Dial, serve: Serve, wire: Wire) -> None:
    plain = serve()
    first = (await dial(wire, plain).send("ask")).task
    second = (await dial(wire, plain).send("ask", context=first.context)).task
    for task in (first, second):
        assert (await dial(wire, plain).get(task.id)).task.state == "input_required"
        assert (await dial(wire, plain).send("echo", task=task.id)).task.state == "completed"
