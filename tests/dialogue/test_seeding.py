"""Slots that an orchestrator sends along: where they are found, who wins, what is skipped."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialogue.assistant import Assistant
from server.dialogue.seeding import INVALID_MARKER, INVALID_VALUE, NOT_ALLOWED, read_seeds, strip_markers
from server.dialogue.settings import AssistantSettings
from tests.dialogue.builders import EXAMPLES, Talk, spoken


def read(bank: Assistant, text: str = "", **sources: Any) -> dict[str, Any]:
    seeds = read_seeds(
        text,
        sources.get("data", ()),
        sources.get("message", {}),
        sources.get("request", {}),
        bank.project.domain,
        sources.get("allowlist"),
    )
    return seeds.values


def test_a_slots_line_is_read_and_taken_out_of_the_text() -> None:
    text, values = strip_markers('send money\nSLOTS: {"recipient": "Ana", "amount": 3}\n')

    assert (text, values) == ("send money", {"recipient": "Ana", "amount": 3})


def test_a_trailing_fence_is_read_and_taken_out_of_the_text() -> None:
    text, values = strip_markers('send money\n```json\n{"recipient": "Ana"}\n```')

    assert (text, values) == ("send money", {"recipient": "Ana"})


def test_of_two_markers_the_later_wins() -> None:
    text, values = strip_markers('SLOTS: {"a": 1, "b": 1}\nhello\nSLOTS: {"a": 2}\n```json\n{"b": 3}\n```\n')

    assert (text, values) == ("hello", {"a": 2, "b": 3})


def test_only_a_trailing_fence_counts() -> None:
    text = 'look:\n```json\n{"recipient": "Ana"}\n```\nnice?'

    assert strip_markers(text) == (text, {})


@pytest.mark.parametrize("text", ["hello\nSLOTS: {oops}", "hello\nSLOTS: [1]", "hello\n```json\n{oops\n```"])
def test_a_marker_that_is_no_object_stays_in_the_text_and_is_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert strip_markers(text) == (text, {})
    assert INVALID_MARKER in caplog.messages


def test_the_message_wins_over_the_request_key_by_key(bank: Assistant) -> None:
    values = read(bank, message={"slots": {"recipient": "Ana"}}, request={"slots": {"recipient": "Bob", "amount": "5"}})

    assert values == {"recipient": "Ana", "amount": 5.0}


SLOT_VALUES = st.dictionaries(st.sampled_from(["recipient", "balance", "nonsense"]), st.integers(0, 9), max_size=3)


@given(SLOT_VALUES, SLOT_VALUES, SLOT_VALUES, SLOT_VALUES, SLOT_VALUES)
def test_text_then_request_then_message_then_data_parts(
    marked: dict[str, int],
    request: dict[str, int],
    message: dict[str, int],
    first: dict[str, int],
    second: dict[str, int],
) -> None:
    bank = _BANK
    values = read(
        bank,
        f"hi\nSLOTS: {json.dumps(marked)}",
        message={"slots": message},
        request={"slots": request},
        data=({"slots": first}, {"slots": second}, {"other": 1}),
    )

    merged = {**marked, **request, **message, **first, **second}
    merged.pop("nonsense", None)
    expected: dict[str, Any] = {name: str(v) if name == "recipient" else float(v) for name, v in merged.items()}
    assert values == expected


_BANK = Assistant.load(EXAMPLES / "bank")


def test_merging_comes_before_fitting_so_a_bad_winner_does_not_revive_the_loser(bank: Assistant) -> None:
    values = read(bank, message={"slots": {"amount": 5}}, data=({"slots": {"amount": "lots"}},))

    assert values == {}


def test_unknown_and_builtin_slots_are_ignored(bank: Assistant) -> None:
    assert read(bank, data=({"slots": {"nonsense": 1, "continue_conversation": True, "csat_score": 5}},)) == {}


@pytest.mark.parametrize("word", ["none", "NULL", " undefined "])
def test_words_for_nothing_mean_null(bank: Assistant, word: str) -> None:
    assert read(bank, data=({"slots": {"recipient": word}},)) == {"recipient": None}


def test_an_invalid_value_is_skipped_and_logged_without_the_value(
    bank: Assistant, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(bank, data=({"slots": {"transfer_status": "maybe-secret"}},)) == {}

    [record] = [record for record in caplog.records if record.message == INVALID_VALUE]
    assert (record.__dict__["slot"], record.__dict__["slot_type"]) == ("transfer_status", "categorical")
    assert "maybe-secret" not in str(record.__dict__)


def test_an_allowlist_keeps_everything_else_out(bank: Assistant, caplog: pytest.LogCaptureFixture) -> None:
    slots = {"slots": {"recipient": "Ana", "funds_ok": True}}

    with caplog.at_level(logging.WARNING):
        assert read(bank, data=(slots,), allowlist=frozenset({"recipient"})) == {"recipient": "Ana"}
    assert NOT_ALLOWED in caplog.messages


def test_slots_that_are_no_object_are_no_slots(bank: Assistant) -> None:
    assert read(bank, message={"slots": "x"}, data=({"slots": [1]},)) == {}


async def test_the_users_own_words_win_over_the_orchestrators(at_bank: Talk) -> None:
    result = await at_bank.say("send 50 euros to Bob", seed={"recipient": "Ana", "amount": 20})

    assert result.data["slots"]["recipient"] == "Bob"
    assert result.data["slots"]["amount"] == 50.0


async def test_the_users_invalid_value_does_not_beat_the_orchestrators(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("99999", seed={"amount": 20})

    assert result.data["slots"]["amount"] == 20.0
    assert spoken(result) == ["utter_ask_transfer_confirmed"]


async def test_a_seed_that_answers_the_question_is_not_spoilt_by_words_nobody_understood(at_bank: Talk) -> None:
    await at_bank.says("send 50 euros to Bob")

    result = await at_bank.say("blue bananas", seed={"transfer_confirmed": True})

    assert result.task_state == "completed"
    assert result.data["persisted_slots"] == {"transfer_status": "executed"}


async def test_the_marker_is_not_part_of_the_answer(at_bank: Talk) -> None:
    await at_bank.says("send money")

    result = await at_bank.say('Bob\nSLOTS: {"amount": 20}')

    assert result.data["slots"] == {"recipient": "Bob", "amount": 20.0, "funds_ok": True}


async def test_only_unusable_slots_and_no_text_is_rejected(at_bank: Talk) -> None:
    assert (await at_bank.say(seed={"nonsense": 1})).task_state == "rejected"


async def test_only_unchanged_slots_and_no_text_is_not_rejected(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say(seed={"recipient": "Bob"})

    assert result.task_state == "input_required"
    assert spoken(result) == ["utter_ask_amount"]


async def test_a_changed_value_of_a_filled_slot_of_the_running_flow_is_a_correction(at_bank: Talk) -> None:
    await at_bank.says("send 50 euros to Bob")

    result = await at_bank.say(seed={"recipient": "Ana"})

    assert spoken(result) == ["utter_corrected_previous_input", "utter_ask_transfer_confirmed"]
    assert result.data["slots"]["recipient"] == "Ana"


async def test_a_slot_the_running_flow_does_not_ask_for_is_written_silently(at_bank: Talk) -> None:
    await at_bank.says("show my balance", "send money to Bob")

    result = await at_bank.say(seed={"balance": 7})

    assert spoken(result) == ["utter_ask_amount"]
    assert result.data["slots"]["balance"] == 7.0


async def test_a_confirmation_can_not_be_seeded_ahead_of_its_question(at_bank: Talk) -> None:
    result = await at_bank.say("send 50 euros to Bob", seed={"transfer_confirmed": True})

    assert result.task_state == "input_required"
    assert spoken(result) == ["utter_ask_transfer_confirmed"]


async def test_the_files_allowlist_holds_for_a_turn() -> None:
    settings = AssistantSettings(slot_allowlist=("recipient",))
    talk = Talk(Assistant.load(EXAMPLES / "bank", settings))

    result = await talk.say("send money", seed={"recipient": "Ana", "amount": 5})

    assert result.data["slots"] == {"recipient": "Ana"}
