"""JSON text of values that are known to be plain: strings, numbers, lists and objects that came out of a JSON text, or
that `documents.dump_event` has proven. pydantic's writer takes a third of the time of Python's, but would also write
what is not JSON at all (a set, a date, NaN), so it has no business with values nobody has looked at."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json


def encode(value: Any) -> bytes:
    return to_json(value)
