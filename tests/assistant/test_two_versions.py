"""R53: two versions of an assistant serve one fleet during a deploy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.assistant.tea import TeaRoom
from tests.processes.conftest import quick_settings
from tests.support.client import Speaker
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_until


@dataclass(frozen=True, slots=True)
class Deploy:
    """A worker with the flow that dialogues are in, and one with other flows altogether."""

    old: Fleet
    new: Fleet


@pytest.fixture
def deploy(real_engine: Engine, tmp_path: Path) -> Iterator[Deploy]:
    settings = quick_settings(real_engine, namespace=f"v{uuid.uuid4().hex[:8]}", drain_seconds=15)
    old, new = TeaRoom(tmp_path / "old"), TeaRoom(tmp_path / "new")
    new.replace_tea()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        running_fleet(1, {**settings, "assistant": str(old.folder)}, tmp_path / "a", agent="") as one,
        running_fleet(1, {**settings, "assistant": str(new.folder)}, tmp_path / "b", agent="") as other,
    ):
        yield Deploy(one, other)


async def test_r53_a_turn_is_left_to_a_worker_whose_flows_its_dialogue_is_in(
    deploy: Deploy, http: httpx.AsyncClient
) -> None:
    here, there = Speaker(http, deploy.old.nodes[0].url, "1.0"), Speaker(http, deploy.new.nodes[0].url, "1.0")
    assert (await here.send("order tea", context="blocking")).task.text == "Which tea?"
    assert (await here.send("order tea", context="streaming")).task.text == "Which tea?"

    answer = (await there.send("green", context="blocking")).task
    assert (answer.state, answer.text) == ("input_required", "With sugar?")
    assert "turn.passed_on" in deploy.new.log()
    async with there.stream("black", context="streaming") as stream:
        items = await stream.rest()
    assert (items[-1].state, items[-1].text) == ("input_required", "With sugar?")
    # What fits both goes on where it is.
    assert (await there.send("when are you open", context="other")).task.state == "completed"
    assert (await there.send("when are you open", context="other")).task.state == "completed"


async def test_r53_where_nobody_can_go_on_the_dialogue_is_repaired_and_that_is_said(
    deploy: Deploy, http: httpx.AsyncClient
) -> None:
    here, there = Speaker(http, deploy.old.nodes[0].url, "1.0"), Speaker(http, deploy.new.nodes[0].url, "1.0")
    assert (await here.send("order tea", context="left")).task.text == "Which tea?"
    deploy.old.nodes[0].terminate()
    await deploy.old.nodes[0].gone()

    repaired = (await there.send("green", context="left")).task
    assert (repaired.state, repaired.data["reason"]) == ("canceled", "assistant_changed")
    assert "turn.passed_on" not in deploy.new.log()


async def test_r53_a_worker_that_could_go_on_and_dies_is_not_waited_for_for_ever(
    deploy: Deploy, http: httpx.AsyncClient
) -> None:
    here, there = Speaker(http, deploy.old.nodes[0].url, "1.0"), Speaker(http, deploy.new.nodes[0].url, "1.0")
    assert (await here.send("order tea", context="frozen")).task.text == "Which tea?"
    deploy.old.nodes[0].pause()
    task = (await there.send("green", context="frozen", wait=False)).task.id
    await wait_until(lambda: "turn.passed_on" in deploy.new.log())

    async with there.subscribe(task) as stream:
        items = await stream.rest()
    assert items[-1].state == "canceled"
    assert items[-1].data["reason"] == "assistant_changed"
