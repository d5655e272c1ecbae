"""Shortened histories and wire timestamps."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from server.protocol.fields import timestamp_ms
from server.protocol.views import timestamp, trim_history
from tests.protocol.samples import FULL, QUESTION
from tests.protocol.strategies import times

THREE = replace(FULL, history=tuple(replace(QUESTION, message_id=f"m{number}") for number in range(3)))


@pytest.mark.parametrize(
    ("length", "kept"),
    [
        (None, ["m0", "m1", "m2"]),
        (0, []),
        (1, ["m2"]),
        (2, ["m1", "m2"]),
        (3, ["m0", "m1", "m2"]),
        (9, ["m0", "m1", "m2"]),
    ],
)
def test_the_last_messages_are_kept_oldest_first(length: int | None, kept: list[str]) -> None:
    trimmed = trim_history(THREE, length)
    assert [message.message_id for message in trimmed.history] == kept
    assert trimmed.status.message == FULL.status.message


def test_a_task_that_needs_no_trimming_is_not_copied() -> None:
    assert trim_history(THREE, None) is THREE
    assert trim_history(THREE, 3) is THREE


@pytest.mark.parametrize(
    ("at_ms", "written"),
    [(0, "1970-01-01T00:00:00.000Z"), (1, "1970-01-01T00:00:00.001Z"), (1_767_323_045_678, "2026-01-02T03:04:05.678Z")],
)
def test_timestamps_have_three_digits_and_z(at_ms: int, written: str) -> None:
    assert timestamp(at_ms) == written


@given(times)
def test_timestamps_are_read_back_exactly(at_ms: int) -> None:
    written = timestamp(at_ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", written)
    assert timestamp_ms(written, "at") == at_ms
    assert datetime.fromisoformat(written).tzinfo == UTC
