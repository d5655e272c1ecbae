"""Every dialogue of the example assistants, as their authors wrote them."""

from __future__ import annotations

import pytest

from server.dialogue.assistant import Assistant
from server.dialogue.dialogues import Dialogue, load_dialogues, run_dialogue
from tests.dialogue.builders import EXAMPLES

BANK = load_dialogues(EXAMPLES / "bank")
CLINIC = load_dialogues(EXAMPLES / "clinic")


@pytest.mark.parametrize("dialogue", BANK, ids=lambda dialogue: dialogue.name.split()[0])
async def test_the_bank_answers_as_written(bank: Assistant, dialogue: Dialogue) -> None:
    outcome = await run_dialogue(bank, dialogue)

    assert outcome.passed, "\n".join(outcome.failures)


@pytest.mark.parametrize("dialogue", CLINIC, ids=lambda dialogue: dialogue.name.split()[0])
async def test_the_clinic_answers_as_written(clinic: Assistant, dialogue: Dialogue) -> None:
    outcome = await run_dialogue(clinic, dialogue)

    assert outcome.passed, "\n".join(outcome.failures)


def test_both_examples_have_ten_dialogues_and_no_warnings(bank: Assistant, clinic: Assistant) -> None:
    assert (len(BANK), len(CLINIC)) == (10, 10)
    assert bank.warnings == clinic.warnings == ()
