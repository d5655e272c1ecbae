"""The dialogue test runner: what passes, and how it says what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.dialogue.assistant import Assistant
from server.dialogue.dialogues import FILE, Dialogue, load_dialogues, run_dialogue, run_dialogues
from server.dialogue.problems import AssistantInvalid


@pytest.mark.parametrize(
    ("expectation", "failure"),
    [
        ({"s": "completed"}, "the state should be 'completed' but is 'input_required'"),
        ({"f": None}, "the active flow should be None but is 'transfer_money'"),
        ({"b": ["utter_ask_amount"]}, "the responses should be ['utter_ask_amount'] but is ['utter_ask_recipient']"),
        ({"p": {"a": 1}}, "persisted_slots should be {'a': 1} but is {}"),
        ({"slots": {"amount": 5}}, "the slot 'amount' should be 5 but is None"),
        ({"ev": ["flow_cancelled"]}, "the event 'flow_cancelled' should occur; there were"),
        ({"chunks": True}, "streamed pieces should be True but is False"),
        ({"chunks": 2}, "streamed pieces should be 2 but is 0"),
    ],
)
async def test_a_wrong_expectation_is_explained(bank: Assistant, expectation: dict[str, object], failure: str) -> None:
    dialogue = Dialogue("x", ({"u": "send money", **expectation}, {"u": "never reached", "s": "nonsense"}))

    outcome = await run_dialogue(bank, dialogue)

    assert not outcome.passed
    assert len(outcome.failures) == 1
    assert outcome.failures[0].startswith(f"turn 1 ('send money'): {failure}")


async def test_a_turn_without_words_or_a_cancel_is_named_as_such(bank: Assistant) -> None:
    seeded = await run_dialogue(bank, Dialogue("x", ({"seed": {"amount": 1}, "s": "x"},)))
    cancelled = await run_dialogue(bank, Dialogue("x", ({"cancel": True, "s": "x"},)))

    assert seeded.failures[0].startswith("turn 1 (slots {'amount': 1})")
    assert cancelled.failures[0].startswith("turn 1 (tasks/cancel)")


async def test_dialogues_can_be_chosen_by_name(bank: Assistant) -> None:
    dialogues = (Dialogue("one", ({"u": "hello"},)), Dialogue("two", ({"u": "hello"},)))

    assert [outcome.name for outcome in await run_dialogues(bank, dialogues, only="tw")] == ["two"]
    assert all(outcome.passed for outcome in await run_dialogues(bank, dialogues))


@pytest.mark.parametrize(
    ("content", "message"),
    [("a: hello", "not a list of turns"), ("a: [{u: x, state: y}]", "unknown key 'state'"), ("a: [", "not valid YAML")],
)
def test_a_file_with_mistakes_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / FILE).write_text(content)

    with pytest.raises(AssistantInvalid, match=message):
        load_dialogues(tmp_path)


def test_a_folder_without_dialogues_has_none(tmp_path: Path) -> None:
    assert load_dialogues(tmp_path) == ()
