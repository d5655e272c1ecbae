"""An assistant that is loaded, not loaded, loaded again, or another one than wrote the dialogue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.agents.assistant import NOT_READY
from tests.assistant.conftest import Talk, Tea, serving
from tests.assistant.tea import TeaRoom
from tests.assistant.test_turns import sent
from tests.support.client import Wire
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.wait import wait_until

BOTH = pytest.mark.parametrize("wire", ["0.3", "1.0"])


async def card_of(http: httpx.AsyncClient, url: str) -> tuple[dict[str, Any], str]:
    answer = await http.get(f"{url}/.well-known/agent-card.json")
    card: dict[str, Any] = answer.json()
    return card, answer.headers["etag"]


async def test_the_card_is_made_from_the_flows(http: httpx.AsyncClient, clinic: Fleet, curt_clinic: Fleet) -> None:
    card, _ = await card_of(http, clinic.nodes[0].url)
    curt, _ = await card_of(http, curt_clinic.nodes[1].url)

    assert (card["name"], card["version"]) == ("clinic", "1.0.0")
    skills = {skill["id"]: skill for skill in card["skills"]}
    assert skills["book_appointment"] == {
        "id": "book_appointment",
        "name": "book an appointment",
        "description": "Book a visit at the clinic.",
        "tags": ["flow"],
        "examples": ["book an appointment", "see a doctor"],
    }
    assert "pattern_completed" in skills
    assert "identify_patient" not in skills
    assert [skill["id"] for skill in curt["skills"]] == ["book_appointment", "cancel_appointment", "opening_hours"]


async def test_the_status_names_what_is_loaded(http: httpx.AsyncClient, bank: Fleet) -> None:
    status = (await http.get(f"{bank.nodes[0].url}/status")).json()

    assert (status["model_file"], status["flows"]) == ("bank", ["transfer_money", "check_balance"])
    assert len(status["model_id"]) == 16
    assert status["loaded_at"].endswith("Z")
    assert status["agent"] == {"name": "bank", "version": "1.0.0"}


@BOTH
async def test_an_assistant_that_can_not_be_loaded_says_so_and_is_there_after_a_reload(
    http: httpx.AsyncClient, real_engine: Engine, tmp_path: Path, wire: Wire
) -> None:
    room = TeaRoom(tmp_path / "room")
    room.break_it()
    with serving(real_engine, room.folder, tmp_path, workers=1) as fleet:
        [node] = fleet.nodes
        talk = Talk(http, fleet, wire)

        task = (await sent(talk, "order tea")).task
        card, etag = await card_of(http, node.url)
        status = (await http.get(f"{node.url}/status")).json()

        assert (task.state, task.text) == ("failed", NOT_READY)
        assert task.text == "Agent is not ready to handle messages."
        assert task.data["error_type"] == "agent_not_ready"
        assert "a2a_server.rasa_a2a_agent_executor.execute.agent_not_ready" in node.log
        # Both dialects read this one card; a skill that is not there yet must not be advertised to either.
        assert (card["name"], card["skills"]) == ("tea room", [])
        assert card["supportedInterfaces"]
        assert card["protocolVersion"] == "0.3.0"
        assert status["model_id"] is None
        assert "action_brev does not exist" in status["error"]

        room.reset()
        assert await Tea(room, fleet).reload() == []

        assert (await sent(talk, "order tea")).task.text == "Which tea?"
        loaded, other_etag = await card_of(http, node.url)
        assert loaded["skills"][0]["id"] == "order_tea"
        assert etag != other_etag


async def test_a_reload_changes_card_engine_and_status_on_every_worker(http: httpx.AsyncClient, tea: Tea) -> None:
    before = [await card_of(http, url) for url in tea.fleet.urls]
    tea.room.add_hours()

    assert await tea.reload() == []

    after = [await card_of(http, url) for url in tea.fleet.urls]
    assert len({etag for _, etag in before}) == len({etag for _, etag in after}) == 1
    assert before[0][1] != after[0][1]
    for url, (card, _) in zip(tea.fleet.urls, after, strict=True):
        assert "opening_hours" in [skill["id"] for skill in card["skills"]]
        assert (await http.get(f"{url}/status")).json()["flows"] == ["order_tea", "opening_hours"]
    talk = Talk(http, tea.fleet, "1.0")
    for _ in tea.fleet.nodes:
        assert "Always." in (await sent(talk, "when are you open")).task.text


async def test_a_broken_reload_keeps_the_old_assistant_and_says_why(http: httpx.AsyncClient, tea: Tea) -> None:
    before = await card_of(http, tea.fleet.urls[0])
    tea.room.break_it()

    errors = await tea.reload()

    assert len(errors) == len(tea.fleet.nodes)
    assert "flows.yml" in errors[0]
    assert "flow 'order_tea'" in errors[0]
    assert "The action action_brev does not exist." in errors[0]
    assert await card_of(http, tea.fleet.urls[0]) == before
    talk = Talk(http, tea.fleet, "1.0")
    for _ in tea.fleet.nodes:
        assert (await sent(talk, "order tea")).task.state == "input_required"


async def test_a_running_turn_ends_with_the_assistant_it_began_with(http: httpx.AsyncClient, tea: Tea) -> None:
    talk = Talk(http, tea.fleet, "1.0")
    await sent(talk, "order tea")
    running = asyncio.create_task(sent(talk, "slow"))
    await wait_until(lambda: tea.is_brewing(talk.context), what="the action")
    tea.room.add_hours()

    assert await tea.reload() == []
    tea.open_gate(talk.context)

    answer = (await running).task
    assert (answer.state, answer.text) == ("input_required", "The water boils.\nWith sugar?")


@BOTH
async def test_a_dialogue_goes_on_with_another_version_where_its_flow_still_is(
    http: httpx.AsyncClient, tea: Tea, wire: Wire
) -> None:
    talk = Talk(http, tea.fleet, wire)
    await sent(talk, "order tea")
    tea.room.add_hours()

    assert await tea.reload() == []

    assert (await sent(talk, "green")).task.text == "With sugar?"
    assert "Here is your green tea." in (await sent(talk, "no")).task.text


@BOTH
async def test_a_dialogue_whose_flow_is_gone_is_canceled_and_that_is_said(
    http: httpx.AsyncClient, tea: Tea, wire: Wire
) -> None:
    talk = Talk(http, tea.fleet, wire)
    await sent(talk, "order tea")
    tea.room.replace_tea()

    assert await tea.reload() == []

    repaired = (await sent(talk, "green")).task
    assert (repaired.state, repaired.data["canceled_flow"]) == ("canceled", "order_tea")
    assert repaired.data["reason"] == "assistant_changed"
    assert "order tea" in repaired.text
    after = (await sent(talk, "when are you open")).task
    assert (after.state, after.data["active_flow"]) == ("completed", None)


async def test_a_waiting_task_of_a_flow_that_is_gone_can_be_canceled(http: httpx.AsyncClient, tea: Tea) -> None:
    talk = Talk(http, tea.fleet, "1.0")
    waiting = (await sent(talk, "order tea")).task
    tea.room.replace_tea()

    assert await tea.reload() == []

    canceled = (await talk.next.cancel(waiting.id)).task
    assert (canceled.state, canceled.data["canceled_flow"]) == ("canceled", "order_tea")
    assert "Always." in (await sent(talk, "when are you open")).task.text
