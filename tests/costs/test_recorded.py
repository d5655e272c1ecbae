"""The judge of costs: more fails, less is news, and a race is neither."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.costs import recorded
from tests.costs.recorded import CostNews, judge

COST: dict[str, Any] = {
    "calls": {"admit_turn": 1, "read_task": 2},
    "round_trips": 3,
    "commands": 40,
    "bytes_sent": 1000,
    "bytes_received": 500,
}


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(recorded.RECORD_VARIABLE, raising=False)
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.json")
    recorded.FILE.write_text(json.dumps({"plain": COST}))
    return recorded.FILE


def test_the_same_cost_is_no_news() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge("plain", COST)
        judge("plain", {**COST, "bytes_sent": 1029})


@pytest.mark.parametrize(
    "more",
    [
        {"round_trips": 4},
        {"commands": 41},
        {"bytes_sent": 1031},
        {"bytes_received": 516},
        {"calls": {"admit_turn": 2, "read_task": 2}},
        {"calls": {**COST["calls"], "GET": 1}},
    ],
)
def test_more_of_anything_fails_and_says_what_to_do(more: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="make costs"):
        judge("plain", {**COST, **more})


@pytest.mark.parametrize("less", [{"commands": 39}, {"bytes_sent": 900}, {"calls": {"admit_turn": 1}}])
def test_less_is_news(less: dict[str, Any]) -> None:
    with pytest.warns(CostNews, match="less than recorded"):
        judge("plain", {**COST, **less})


def test_a_race_may_cost_one_call_more_and_no_second() -> None:
    judge("plain", {**COST, "calls": {"admit_turn": 1, "read_task": 3}, "round_trips": 4}, racing="read_task")
    with pytest.raises(AssertionError):
        judge("plain", {**COST, "calls": {"admit_turn": 1, "read_task": 4}}, racing="read_task")
    with pytest.raises(AssertionError):
        judge("plain", {**COST, "calls": {"admit_turn": 2, "read_task": 2}}, racing="read_task")


def test_a_kind_that_was_never_recorded_fails() -> None:
    with pytest.raises(AssertionError, match="no cost of 'fancy'"):
        judge("fancy", COST)


def test_recording_replaces_one_kind_and_keeps_the_others(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(recorded.RECORD_VARIABLE, "1")
    judge("fancy", COST)
    judge("plain", {**COST, "commands": 99})
    kept = json.loads(book.read_text())
    assert kept["fancy"] == COST
    assert kept["plain"]["commands"] == 99
