"""The facade: skills, versions, skills by name, cancelling, and the card's content."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from server.dialogue.assistant import SKILL_NOT_AVAILABLE, UNKNOWN_SKILL, Assistant
from server.dialogue.settings import AssistantSettings
from tests.dialogue.builders import EXAMPLES, Talk, build, events, spoken


def test_each_flow_that_can_be_started_is_a_skill(clinic: Assistant) -> None:
    skills = {skill.id: skill for skill in clinic.with_repair(False).skills}

    assert list(skills) == ["book_appointment", "cancel_appointment", "opening_hours"]
    booking = skills["book_appointment"]
    assert (booking.name, booking.description) == ("book an appointment", "Book a visit at the clinic.")
    assert booking.tags == ("flow",)
    assert booking.examples == ("book an appointment", "see a doctor")


def test_patterns_are_skills_when_the_assistant_repairs_conversations(clinic: Assistant) -> None:
    ids = [skill.id for skill in clinic.skills]

    assert ids[:3] == ["book_appointment", "cancel_appointment", "opening_hours"]
    assert "pattern_completed" in ids
    assert "identify_patient" not in ids


def test_name_and_version_come_from_the_files_or_their_defaults(tmp_path: Path, bank: Assistant) -> None:
    files = {"domain": "slots: {}", "flows": "flows:\n  a: {description: x, steps: [{action: utter_cannot_handle}]}"}
    plain = build(tmp_path / "a", **files)
    named = build(tmp_path / "b", AssistantSettings(model_name="20260101-bold.tar.gz"), **files)
    configured = build(tmp_path / "c", **files, config="model_id: m7")

    assert (bank.name, bank.version) == ("bank", "1.0.0")
    assert (plain.name, plain.version) == ("Rasa Agent", "1.0.0")
    assert named.version == "20260101-bold"
    assert configured.version == "m7"
    assert plain.flow_ids == ("a",)


def test_repair_comes_from_the_settings_then_the_file_then_the_default(tmp_path: Path, bank: Assistant) -> None:
    files = {
        "domain": "slots: {}",
        "flows": "flows:\n  a: {description: x, steps: [{action: utter_cannot_handle}]}",
        "endpoints": "a2a_server: {description: x, include_conversation_repair: false}",
    }

    assert bank.repair
    assert not build(tmp_path, **files).repair
    assert Assistant.load(tmp_path, AssistantSettings(include_conversation_repair=True)).repair


async def test_a_skill_starts_its_flow_and_takes_values_from_the_words(at_bank: Talk) -> None:
    result = await at_bank.say("to Bob please", skill="transfer_money")

    assert (result.data["active_flow"], result.data["slots"]) == ("transfer_money", {"recipient": "Bob"})


async def test_a_skill_may_come_in_the_metadata_and_without_words(at_bank: Talk) -> None:
    result = await at_bank.say(message_metadata={"skill": "check_balance"})

    assert spoken(result)[0] == "utter_balance"


@pytest.mark.parametrize("skill", ["nonsense", "", 5, ["check_balance"], {}])
async def test_an_unknown_skill_is_rejected_and_changes_nothing(at_bank: Talk, skill: object) -> None:
    before = (await at_bank.says("send money to Bob")).state_json

    result = await at_bank.say("20", request_metadata={"skill": skill})

    assert (result.task_state, result.data["reason"]) == ("rejected", UNKNOWN_SKILL)
    assert result.state_json == before
    assert spoken(await at_bank.say("20")) == ["utter_ask_transfer_confirmed"]


async def test_a_skill_does_not_disturb_a_flow_that_runs(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("20", skill="check_balance")

    assert spoken(result) == ["utter_ask_transfer_confirmed"]


async def test_a_skill_respects_the_guard_with_this_turns_values(tmp_path: Path) -> None:
    talk = Talk(
        build(
            tmp_path,
            domain="slots: {open: {type: bool, mappings: [{type: controlled}]}}",
            flows="flows:\n  a: {description: x, if: slots.open, steps: [{action: utter_cannot_handle}]}\n"
            "  b: {description: y, if: False, steps: [{action: utter_cannot_handle}]}",
        )
    )

    assert (await talk.say(skill="b")).data["reason"] == SKILL_NOT_AVAILABLE
    assert (await talk.say(skill="a")).data["reason"] == SKILL_NOT_AVAILABLE
    assert (await talk.say(skill="a", seed={"open": True})).task_state == "completed"


async def test_a_skill_is_taken_while_anything_else_is_asked(at_bank: Talk) -> None:
    await at_bank.says("show my balance")

    assert (await at_bank.say(skill="transfer_money")).data["active_flow"] == "transfer_money"


async def test_advertised_patterns_can_be_asked_for(at_bank: Talk) -> None:
    assert spoken(await at_bank.say(skill="pattern_human_handoff")) == ["utter_human_handoff_not_available"]
    assert (await at_bank.say(skill="pattern_correction")).data["reason"] == SKILL_NOT_AVAILABLE


async def test_cancelling_a_waiting_flow_says_nothing_and_records_it(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = at_bank.assistant.cancel(at_bank.state)

    assert (result.task_state, result.texts) == ("canceled", ())
    assert result.data == {"state": "canceled", "active_flow": None, "slots": {}, "canceled_flow": "transfer_money"}
    assert events(result, "flow_cancelled") == ["transfer_money"]


async def test_cancelling_interrupted_flows_restores_every_one(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob", "how much do I have?")

    result = at_bank.assistant.cancel(at_bank.state)

    assert events(result, "flow_cancelled") == ["transfer_money"]
    assert result.data["slots"] == {"balance": 100.0}


def test_cancelling_where_nothing_runs_is_fine(bank: Assistant) -> None:
    result = bank.cancel(None)

    assert (result.task_state, result.events) == ("canceled", ())
    assert result.data["canceled_flow"] is None


async def test_the_first_eligible_variation_is_used_unless_chance_is_wanted(tmp_path: Path) -> None:
    files = {
        "domain": "responses: {utter_x: [{text: a}, {text: b}, {text: c, channel: a2a}, {text: d, channel: voice}]}",
        "flows": "flows:\n  go: {description: x, steps: [{action: utter_x}]}",
    }
    fixed = build(tmp_path / "a", **files)
    chance = build(tmp_path / "b", AssistantSettings(random_responses=True, rng=random.Random(1)), **files)

    assert (await Talk(fixed).say("go")).texts[0] == "c", "the variation for our channel comes first"
    assert (await Talk(chance).say("go")).texts[0] == "c"


async def test_templates_see_slots_and_context_but_nothing_else(tmp_path: Path) -> None:
    template = "{{ slots.name }} {{ slots.name.__class__.__mro__ }} {{ self.__init__.__globals__ }}|"
    talk = Talk(
        build(
            tmp_path,
            domain="slots: {name: {type: text}}\n"
            f"responses:\n  utter_x: [{{text: '{template}', metadata: {{template: jinja}}}}]\n"
            "  utter_y: [{text: '{name} {{b}}'}]",
            flows="flows:\n  go: {description: x, steps: [{action: utter_y}]}\n"
            "  risky: {description: y, steps: [{action: utter_x}]}",
        )
    )

    safe = await talk.say("go", seed={"name": "{{ 7 * 7 }}"})
    risky = await talk.say("risky")

    assert safe.texts[0] == "{{ 7 * 7 }} {b}", "what a user typed is never a template"
    assert "globals" not in " ".join(risky.texts)
    assert risky.task_state in ("completed", "failed")


def test_everything_is_read_from_data_and_domain_folders(tmp_path: Path) -> None:
    bank = EXAMPLES / "bank"
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "domain").mkdir()
    (tmp_path / "data" / "deep" / "flows.yml").write_text((bank / "flows.yml").read_text())
    (tmp_path / "data" / "nlu.yaml").write_text((bank / "nlu.yml").read_text())
    (tmp_path / "domain" / "all.yml").write_text((bank / "domain.yml").read_text())
    (tmp_path / "actions.py").write_text((bank / "actions.py").read_text())

    assistant = Assistant.load(tmp_path)

    assert assistant.flow_ids == ("transfer_money", "check_balance")
    assert assistant.fingerprint == Assistant.load(bank).fingerprint
    assert assistant.warnings == ()
