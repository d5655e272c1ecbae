"""The stored form of a dialogue: schema, assistant version, and repair when flows changed in between."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from server.dialogue import state as states
from server.dialogue.assistant import REPAIRED, Assistant
from server.dialogue.state import UnreadableState
from tests.dialogue.builders import EXAMPLES, Talk, build, events, spoken

DOMAIN = """
slots: {city: {type: text}, size: {type: float, initial_value: 3}}
responses: {utter_ask_city: [{text: Where}], utter_ask_size: [{text: Big}]}
"""
FLOWS = "flows:\n  trip: {name: plan a trip, description: Plan a trip., steps: [{collect: city}]}\n"


async def test_the_stored_state_names_its_schema_and_who_wrote_it(at_bank: Talk) -> None:
    await at_bank.says("send money")

    document = json.loads(at_bank.state or "")

    assert (document["schema"], document["assistant"]) == (states.SCHEMA, at_bank.assistant.fingerprint)
    assert "turn" not in document


def test_the_fingerprint_follows_flows_and_domain(tmp_path: Path) -> None:
    one = build(tmp_path / "a", domain=DOMAIN, flows=FLOWS)
    same = build(tmp_path / "b", domain=DOMAIN, flows=FLOWS)
    other = build(tmp_path / "c", domain=DOMAIN, flows=FLOWS.replace("Plan a trip.", "Plan trips."))

    assert one.fingerprint == same.fingerprint != other.fingerprint


async def test_other_flows_that_still_know_the_step_go_on(tmp_path: Path) -> None:
    old = build(tmp_path / "a", domain=DOMAIN, flows=FLOWS)
    new = build(
        tmp_path / "b",
        domain=DOMAIN,
        flows=FLOWS.replace("[{collect: city}]", "[{action: utter_ask_rephrase}, {collect: city}, {collect: size}]"),
    )
    talk = Talk(old)
    await talk.says("trip")
    assert new.resolves(talk.state)
    talk.assistant = new

    result = await talk.say("Rome")

    assert result.task_state == "completed"
    assert json.loads(result.state_json)["assistant"] == new.fingerprint


async def test_a_stack_that_does_not_fit_any_more_is_cancelled_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = build(tmp_path / "a", domain=DOMAIN, flows=FLOWS)
    new = build(
        tmp_path / "b",
        domain=DOMAIN,
        flows="flows:\n  journey: {description: Make a journey., steps: [{collect: size}]}\n",
    )
    talk = Talk(old)
    await talk.says("trip")
    assert not new.resolves(talk.state)
    talk.assistant = new

    with caplog.at_level(logging.WARNING):
        result = await talk.say("Rome")

    assert REPAIRED in caplog.messages
    assert (result.task_state, spoken(result)) == ("canceled", ["utter_flow_cancelled_rasa"])
    assert result.texts == ("All right, I have stopped: trip.",)
    assert (result.data["canceled_flow"], result.data["reason"]) == ("trip", "assistant_changed")
    assert events(result, "flow_cancelled") == ["trip"]
    assert (await talk.say("make a journey")).task_state == "completed", "the size has its initial value"


async def test_the_answer_to_an_old_question_is_not_taken_for_one_to_a_new_question(tmp_path: Path) -> None:
    domain = """
    slots: {city: {type: bool}, agreed: {type: bool}}
    responses: {utter_ask_city: [{text: City}], utter_ask_agreed: [{text: Agreed}]}
    """
    flows = "flows:\n  trip: {description: Trip., steps: [{id: ask, collect: city}]}"
    talk = Talk(build(tmp_path / "a", domain=domain, flows=flows))
    await talk.says("trip")
    talk.assistant = build(tmp_path / "b", domain=domain, flows=flows.replace("collect: city", "collect: agreed"))

    result = await talk.say("yes")

    assert (result.task_state, result.data["reason"]) == ("canceled", "assistant_changed")
    assert result.data["slots"] == {}


async def test_a_repaired_dialogue_still_does_what_the_message_asks(tmp_path: Path) -> None:
    old = build(tmp_path / "a", domain=DOMAIN, flows=FLOWS)
    new = build(tmp_path / "b", domain=DOMAIN, flows="flows:\n  fly: {description: Fly., steps: [{collect: city}]}\n")
    talk = Talk(old)
    await talk.says("trip")
    talk.assistant = new

    result = await talk.say("I want to fly")

    assert spoken(result) == ["utter_flow_cancelled_rasa", "utter_ask_city"]
    assert (result.task_state, result.data["active_flow"]) == ("input_required", "fly")


async def test_a_cancel_of_a_stack_that_does_not_fit_is_still_a_cancel(tmp_path: Path) -> None:
    old = build(tmp_path / "a", domain=DOMAIN, flows=FLOWS)
    new = build(tmp_path / "b", domain=DOMAIN, flows="flows:\n  fly: {description: Fly., steps: [{collect: city}]}\n")
    talk = Talk(old)
    await talk.says("trip")

    result = new.cancel(talk.state)

    assert (result.task_state, result.texts) == ("canceled", ())
    assert events(result, "flow_cancelled") == ["trip"]


@pytest.mark.parametrize("stored", ["{", "[]", "{}", '{"schema": 99}', '{"schema": 0}', '{"schema": 1, "slots": 5}'])
async def test_an_unreadable_state_is_never_a_crash_and_never_silent(
    bank: Assistant, stored: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not bank.resolves(stored)
    with pytest.raises(UnreadableState):
        bank._codec.load(stored)

    with caplog.at_level(logging.WARNING):
        result = await Talk(bank, stored).say("show my balance")

    assert REPAIRED in caplog.messages
    assert spoken(result) == ["utter_flow_cancelled_rasa", "utter_balance", "utter_ask_continue_conversation"]
    assert result.task_state == "completed"


async def test_an_older_schema_is_upcast_step_by_step(at_bank: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    await at_bank.says("send money to Bob")
    document = json.loads(at_bank.state or "")
    document["values"] = document.pop("slots")
    document["schema"] = -1
    monkeypatch.setattr(
        states,
        "UPCASTS",
        {-1: lambda d: d, 0: lambda d: {**{k: v for k, v in d.items() if k != "values"}, "slots": d["values"]}},
    )

    result = await Talk(at_bank.assistant, json.dumps(document)).say("20")

    assert spoken(result) == ["utter_ask_transfer_confirmed"]


async def test_a_slot_that_was_cleared_does_not_come_back_with_its_initial_value(tmp_path: Path) -> None:
    assistant = build(tmp_path, domain=DOMAIN, flows=FLOWS)
    talk = Talk(assistant)

    await talk.say("trip", seed={"size": None})

    assert assistant._codec.load(talk.state or "").slots == {"max_clarification_options": 3.0}


async def test_slots_of_another_version_are_not_shown_and_are_kept_for_it(tmp_path: Path) -> None:
    old = build(tmp_path / "a", domain=DOMAIN.replace("{city:", "{color: {type: text}, city:"), flows=FLOWS)
    new = build(tmp_path / "b", domain=DOMAIN, flows=FLOWS)
    talk = Talk(old)
    await talk.say("trip", seed={"color": "red"})
    talk.assistant = new

    assert (await talk.say("Rome")).data["slots"] == {"size": 3.0}
    assert json.loads(talk.state or "")["slots"]["color"] == "red"
    assert old._codec.load(talk.state or "").slots["color"] == "red"


async def test_what_a_newer_release_wrote_beside_survives_a_turn(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")
    document = json.loads(at_bank.state or "")
    document["mood"] = {"deep": [1]}
    document["stack"][0]["since"] = 7
    assert at_bank.assistant.resolves(json.dumps(document))

    talk = Talk(at_bank.assistant, json.dumps(document))
    assert spoken(await talk.say("20")) == ["utter_ask_transfer_confirmed"]

    after = json.loads(talk.state or "")
    assert after["mood"] == {"deep": [1]}
    assert after["stack"][0]["since"] == 7


async def test_values_of_any_depth_and_any_text_are_kept(tmp_path: Path) -> None:
    talk = Talk(build(tmp_path, domain=DOMAIN.replace("{city:", "{note: {type: any}, city:"), flows=FLOWS))
    note: Any = ["", "½ \ud800", 10**30, 1e-7, {"key": None}]
    for _ in range(300):
        note = [note]

    await talk.say("trip", seed={"note": note})

    assert (await talk.say("Rome")).data["slots"]["note"] == note


async def test_the_stored_history_is_bounded(at_bank: Talk) -> None:
    for _ in range(30):
        await at_bank.says("hello")

    assert len(json.loads(at_bank.state or "")["history"]) == states.SHORT_HISTORY_LINES


def test_an_assistant_can_be_loaded_twice_in_one_process() -> None:
    bank, clinic = Assistant.load(EXAMPLES / "bank"), Assistant.load(EXAMPLES / "clinic")

    assert (bank.name, clinic.name) == ("bank", "clinic")
    assert "action_fetch_balance" in bank._wiring.actions.names
    assert "action_find_opening" in clinic._wiring.actions.names
