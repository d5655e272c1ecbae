"""Strict readers of single request members: each returns a checked value or says where and why it cannot."""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from server.protocol.errors import ParamsInvalid
from server.protocol.model import JsonObject
from server.protocol.text import prover

# Long enough for any id a client invents, short enough to be hashed, logged and echoed without thought.
MAX_ID_CHARS = 512
MAX_PARTS = 1000

_INT32_MAX = 2**31 - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_URL_SAFE = str.maketrans("-_", "+/")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Encoding a foreign JSON value once, in C, is the cheapest proof that it can be stored and sent again: it finds NaN,
# numbers beyond the range of doubles (1e999 parses as infinity) and, with `.encode()`, lone surrogates.
_prove = prover()


def invalid(path: str, description: str) -> ParamsInvalid:
    """The error about one field; its message is enough to correct the request."""
    return ParamsInvalid(f"{path}: {description}", violations=[(path, description)])


def text(value: Any, path: str) -> str:
    """Any text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise invalid(path, "must be a string" if value is not None else "is required")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(path, "must be valid Unicode without lone surrogates") from None
    return value


def filled(value: Any, path: str) -> str:
    """Text that says something."""
    if not text(value, path):
        raise invalid(path, "must not be empty")
    return value  # type: ignore[no-any-return]


def ident(value: Any, path: str) -> str:
    """An id: 1 to MAX_ID_CHARS characters, none of them a control character."""
    if not isinstance(value, str):
        raise invalid(path, "must be a string" if value is not None else "is required")
    if not value:
        raise invalid(path, "must not be empty")
    if len(value) > MAX_ID_CHARS:
        raise invalid(path, f"must not be longer than {MAX_ID_CHARS} characters")
    if not value.isprintable():
        text(value, path)
        if _CONTROL.search(value):
            raise invalid(path, "must not contain control characters")
    return value


def obj(value: Any, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise invalid(path, "must be an object" if value is not None else "is required")
    return value


def array(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise invalid(path, "must be an array" if value is not None else "is required")
    return value


def json_value(value: Any, path: str) -> Any:
    """A user's JSON value, unchanged: null stays null and an integer stays an integer."""
    try:
        _prove(value).encode()
    except UnicodeEncodeError:
        raise invalid(path, "must be valid Unicode without lone surrogates") from None
    except RecursionError:
        raise invalid(path, "is nested too deeply") from None
    except ValueError:
        raise invalid(path, "must not contain numbers outside the range of JSON") from None
    return value


def metadata(value: Any, path: str) -> JsonObject:
    checked: JsonObject = json_value(obj(value, path), path)
    return checked


def strings(value: Any, path: str) -> tuple[str, ...]:
    return tuple([filled(item, f"{path}[{index}]") for index, item in enumerate(array(value, path))])


def idents(value: Any, path: str) -> tuple[str, ...]:
    return tuple([ident(item, f"{path}[{index}]") for index, item in enumerate(array(value, path))])


def boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(path, "must be true or false")
    return value


def integer(value: Any, path: str, low: int = 0, high: int = _INT32_MAX) -> int:
    """A JSON integer. `true` is not one, though Python says so."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise invalid(path, "must be an integer")
    if not low <= value <= high:
        raise invalid(path, f"must be between {low} and {high}" if high < _INT32_MAX else f"must be {low} or more")
    return value


def proto_integer(value: Any, path: str, low: int = 0, high: int = _INT32_MAX) -> int:
    """An int32 as ProtoJSON reads it: also `"5"` and `5.0`."""
    if (isinstance(value, str) and _INTEGER.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return integer(value, path, low, high)


def base64_text(value: Any, path: str) -> str:
    """Standard, padded base64, whatever alphabet, padding or line breaks it came with."""
    if not isinstance(value, str):
        raise invalid(path, "must be a string of base64")
    if _decodes(value):
        return value
    standard = "".join(value.split()).translate(_URL_SAFE).rstrip("=")
    standard += "=" * (-len(standard) % 4)
    if not _decodes(standard):
        raise invalid(path, "must be valid base64")
    return standard


def _decodes(value: str) -> bool:
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return False
    return True


def timestamp_ms(value: Any, path: str) -> int:
    """Milliseconds since the epoch, rounded up, so that `at or after` keeps its meaning below a millisecond."""
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise invalid(path, "must be a timestamp such as 2026-01-02T03:04:05.678Z")
    day, clock, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    except ValueError:
        raise invalid(path, "must be a timestamp that exists") from None
    ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if fraction:
        ms += -(-int(fraction.ljust(9, "0")) // 1_000_000)
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            raise invalid(path, "must have an offset that exists")
        offset = (int(hours) * 60 + int(minutes)) * 60_000
        ms += -offset if sign == "+" else offset
    return ms
