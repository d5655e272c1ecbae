"""Storing a value in a slot: what fits, what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialogue.slots import InvalidValue, Slot, SlotType, category_lookup, coerce, is_storable, show

CATEGORIES = ("executed", "Declined", 7)
KIND = Slot("kind", SlotType.CATEGORICAL, values=CATEGORIES, lookup=category_lookup(CATEGORIES))
AMOUNT = Slot("amount", SlotType.FLOAT, low=0.0, high=10000.0)
FLAG = Slot("flag", SlotType.BOOL)
TEXT = Slot("text", SlotType.TEXT)


@pytest.mark.parametrize(
    ("slot", "given_value", "stored"),
    [
        (TEXT, " Bob ", "Bob"),
        (TEXT, 50, "50"),
        (TEXT, 50.0, "50"),
        (FLAG, True, True),
        (FLAG, " TRUE ", True),
        (FLAG, "0", False),
        (FLAG, 1, True),
        (FLAG, 0.0, False),
        (KIND, " EXECUTED", "executed"),
        (KIND, "declined", "Declined"),
        (KIND, 7.0, 7),
        (AMOUNT, "30", 30.0),
        (AMOUNT, " 1e3 ", 1000.0),
        (AMOUNT, 0, 0.0),
        (AMOUNT, 10000, 10000.0),
        (Slot("any", SlotType.ANY), {"a": [1]}, {"a": [1]}),
        (Slot("list", SlotType.LIST), "x", ["x"]),
        (Slot("list", SlotType.LIST), ["x"], ["x"]),
        (AMOUNT, None, None),
    ],
)
def test_a_value_that_fits_is_stored_in_the_slots_form(slot: Slot, given_value: Any, stored: Any) -> None:
    value = coerce(slot, given_value)

    assert value == stored
    assert type(value) is type(stored)


@pytest.mark.parametrize(
    ("slot", "value"),
    [
        (TEXT, ["a"]),
        (TEXT, {"a": 1}),
        (FLAG, "yes"),
        (FLAG, 2),
        (FLAG, []),
        (KIND, "maybe"),
        (KIND, ["executed"]),
        (AMOUNT, True),
        (AMOUNT, "many"),
        (AMOUNT, "1_000"),
        (AMOUNT, "nan"),
        (AMOUNT, math.nan),
        (AMOUNT, math.inf),
        (AMOUNT, "1e999"),
        (AMOUNT, 10**400),
        (AMOUNT, -0.01),
        (AMOUNT, 10000.01),
        (AMOUNT, [1]),
        (Slot("any", SlotType.ANY), {1, 2}),
        (Slot("list", SlotType.LIST), [math.nan]),
    ],
)
def test_a_value_that_does_not_fit_is_refused(slot: Slot, value: Any) -> None:
    with pytest.raises(InvalidValue):
        coerce(slot, value)


def test_a_float_without_written_bounds_has_none() -> None:
    assert coerce(Slot("x", SlotType.FLOAT), -5e9) == -5e9


def test_values_in_sentences() -> None:
    assert [show(value) for value in (50.0, 50.5, None, "", "Bob", True)] == [
        "50",
        "50.5",
        "None",
        "None",
        "Bob",
        "True",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([TEXT, FLAG, KIND, AMOUNT, Slot("any", SlotType.ANY), Slot("list", SlotType.LIST)]), JSON)
def test_whatever_is_accepted_can_be_saved_and_is_stable(slot: Slot, value: Any) -> None:
    try:
        stored = coerce(slot, value)
    except InvalidValue:
        return
    assert is_storable(stored)
    assert coerce(slot, stored) == stored
