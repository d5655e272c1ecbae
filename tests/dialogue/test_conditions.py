"""The condition language: precedence, comparisons, and what it says when it does not understand."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialogue.conditions import MATCH_LENGTH_CAP, ConditionError, compile_condition

SLOTS: dict[str, Any] = {
    "amount": 600.0,
    "currency": "EUR",
    "iban": "DE89",
    "note": "",
    "tags": ["a", "b"],
    "yes": True,
    "no": False,
    "tier": "gold",
    "visits": 3.0,
    "receipt": {"to": "Bob", "lines": []},
}
CONTEXT: dict[str, Any] = {"reason": "cannot_handle_not_supported", "names": []}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('slots.amount > 500 and slots.currency = "EUR"', True),
        ("slots.amount > 500 AND slots.currency == 'USD'", False),
        (r'not (slots.iban matches "^[A-Z]{2}\d{2}")', False),
        ('slots.tier is not null and (slots.tier = "gold" or slots.visits >= 10)', True),
        ('context.reason is "cannot_handle_not_supported"', True),
        ("slots.note is empty or slots.note is null", True),
        ("slots.missing is null", True),
        ("slots.missing is empty", False),
        ("slots.missing is undefined", False),
        ("context.unknown is undefined", True),
        ("context.unknown", False),
        ("context.names", False),
        ("slots.yes", True),
        ("not slots.yes", False),
        ("not not slots.yes", True),
        ("slots.no is false", True),
        ("slots.no is null", False),
        ("slots.yes = 1", False),
        ("slots.missing < 5", False),
        ("slots.missing >= 5", False),
        ("slots.currency > 5", False),
        ("slots.yes > 0", False),
        ('slots.currency < "F"', True),
        ("slots.amount != 600", False),
        ("slots.amount <= 600.0", True),
        ("slots.amount >= 6e2", True),
        ("slots.amount > -1", True),
        ("{'gold' 'silver'} contains slots.tier", True),
        ("{1 2 3} contains slots.visits", True),
        ("slots.tags contains 'b'", True),
        ("slots.tags contains 'c'", False),
        ("slots.currency contains 'U'", True),
        ("slots.currency contains 'u'", False),
        ("slots.receipt contains 'to'", True),
        ("slots.receipt.to is 'Bob'", True),
        ("slots.receipt.lines is empty", True),
        ("slots.receipt.nothing.deeper is undefined", True),
        ("slots.currency matches /eu/i", True),
        ("slots.currency matches /eu/", False),
        ("slots.currency matches '(?i)^eur$'", True),
        ("slots.amount matches '6'", False),
        ("True", True),
        ("false", False),
        # and/or bind equally, to the right: false and (false or true)
        ("false and false or true", False),
        ("true or false and false", True),
        ("(false and false) or true", True),
    ],
)
def test_a_condition_holds_or_not(text: str, expected: bool) -> None:
    assert compile_condition(text).holds(SLOTS, CONTEXT) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("slots.a >", "a value is missing"),
        ("(slots.a", "')' is missing"),
        ("slots.a slots.b", "unexpected 'slots.b'"),
        ("slots.a and and slots.b", "a value was expected instead of 'and'"),
        ("amount > 5", "neither slots.<name> nor context.<name>"),
        ("slots.a matches [a-z]", "regular expression in quotes or slashes"),
        ("slots.a matches '('", "is not valid"),
        ("slots.a = 'open", "unexpected"),
        ("{'a' 'b'", "'}' is missing"),
        ("slots.a & slots.b", "unexpected '&"),
    ],
)
def test_a_broken_condition_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(reason)):
        compile_condition(text)


def test_what_validation_asks_about_a_condition() -> None:
    condition = compile_condition("slots.a and slots.b or context.c is 'x'")

    assert condition.slots == {"a", "b"}
    assert condition.mixed
    assert not compile_condition("slots.a and (slots.b or slots.c)").mixed
    assert compile_condition(False).constant is False
    assert compile_condition("slots.a").constant is None


def test_a_text_longer_than_the_cap_matches_nothing() -> None:
    condition = compile_condition("slots.t matches 'a'")

    assert condition.holds({"t": "a" * MATCH_LENGTH_CAP}, {})
    assert not condition.holds({"t": "a" * (MATCH_LENGTH_CAP + 1)}, {})


@given(st.text(alphabet="slot.ab <>=!()'\"{}andoristxmch/01 ", max_size=60))
def test_any_text_either_compiles_and_evaluates_or_is_refused(text: str) -> None:
    try:
        condition = compile_condition(text)
    except ConditionError:
        return
    condition.holds(SLOTS, CONTEXT)
