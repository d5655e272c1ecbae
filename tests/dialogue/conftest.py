"""Fixtures of the dialogue tests."""

from __future__ import annotations

import pytest

from server.dialogue.assistant import Assistant
from tests.dialogue.builders import EXAMPLES, Talk


@pytest.fixture(scope="session")
def bank() -> Assistant:
    return Assistant.load(EXAMPLES / "bank")


@pytest.fixture(scope="session")
def clinic() -> Assistant:
    return Assistant.load(EXAMPLES / "clinic")


@pytest.fixture
def at_bank(bank: Assistant) -> Talk:
    return Talk(bank)


@pytest.fixture
def at_clinic(clinic: Assistant) -> Talk:
    return Talk(clinic)
