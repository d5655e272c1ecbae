"""The slots of a domain: their types, and what becomes of a value that is to be stored in one."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from server.dialogue.conditions import Condition

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_prove = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
_NULLS = frozenset({"none", "null", "undefined"})
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class SlotType(StrEnum):
    TEXT = "text"
    BOOL = "bool"
    CATEGORICAL = "categorical"
    FLOAT = "float"
    LIST = "list"
    ANY = "any"


class InvalidValue(ValueError):
    """The value does not fit the slot."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reason to refuse a slot's new value: when the condition holds, the response is said."""

    condition: Condition
    utter: str


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    type: SlotType
    values: tuple[Any, ...] = ()
    initial: Any = None
    low: float | None = None
    high: float | None = None
    controlled: bool = False
    builtin: bool = False
    rejections: tuple[Rejection, ...] = ()
    refill_utter: str | None = None
    every_turn: str | None = None
    lookup: dict[str, Any] = field(default_factory=dict, compare=False)


BUILTIN_SLOTS: tuple[Slot, ...] = (
    Slot("continue_conversation", SlotType.BOOL, builtin=True),
    Slot("interrupted_flow_to_continue", SlotType.TEXT, builtin=True),
    Slot("continue_interrupted_flow_confirmation", SlotType.BOOL, builtin=True),
    Slot("confirm_correction", SlotType.BOOL, builtin=True),
    Slot("max_clarification_options", SlotType.FLOAT, initial=3.0, builtin=True),
    Slot("session_started_metadata", SlotType.ANY, builtin=True),
    Slot("silence_timeout", SlotType.FLOAT, builtin=True),
    Slot("consecutive_silence_timeouts", SlotType.FLOAT, builtin=True),
    Slot("csat_score", SlotType.ANY, builtin=True),
)


def category_lookup(values: tuple[Any, ...]) -> dict[str, Any]:
    """Spelling without case -> the domain's spelling."""
    return {str(value).strip().casefold(): value for value in values}


def is_null_word(value: Any) -> bool:
    """An orchestrator that has no value often sends the word for it."""
    return isinstance(value, str) and value.strip().casefold() in _NULLS


def coerce(slot: Slot, value: Any) -> Any:
    """The value as the slot stores it; raises InvalidValue when it does not fit."""
    if value is None:
        return None
    match slot.type:
        case SlotType.TEXT:
            return _text(value)
        case SlotType.BOOL:
            return _bool(value)
        case SlotType.CATEGORICAL:
            return _category(slot, value)
        case SlotType.FLOAT:
            return _float(slot, value)
        case SlotType.LIST:
            return _storable(value if isinstance(value, list) else [value])
        case SlotType.ANY:
            return _storable(value)


def is_storable(value: Any) -> bool:
    """True when the value survives being saved with the dialogue."""
    if value is None or isinstance(value, (str, bool, int)):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    try:
        _prove(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def show(value: Any) -> str:
    """A slot's value inside a sentence: 50 and not 50.0, None when there is nothing."""
    if value is None or value == "":
        return "None"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def _text(value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise InvalidValue("a list or an object is not a text")
    return show(value) if isinstance(value, float) else str(value).strip()


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        found = _BOOLS.get(value.strip().casefold())
        if found is not None:
            return found
    raise InvalidValue("neither true nor false")


def _category(slot: Slot, value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise InvalidValue("a list or an object is not a category")
    key = (show(value) if isinstance(value, float) else str(value)).strip().casefold()
    if key not in slot.lookup:
        raise InvalidValue("not one of the slot's values")
    return slot.lookup[key]


def _float(slot: Slot, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidValue("not a number")
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is None:
        raise InvalidValue("not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise InvalidValue("not a finite number") from error
    if not math.isfinite(number):
        raise InvalidValue("not a finite number")
    if (slot.low is not None and number < slot.low) or (slot.high is not None and number > slot.high):
        raise InvalidValue("outside the slot's range")
    return number


def _storable(value: Any) -> Any:
    if not is_storable(value):
        raise InvalidValue("not representable as JSON")
    return value
