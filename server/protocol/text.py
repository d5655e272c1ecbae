"""JSON text, made quickly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json


def encode(value: Any) -> bytes:
    """Of values that are known to be plain: strings, numbers, lists and objects that came out of a JSON text, or that a
    prover has seen. pydantic's writer takes a third of the time of Python's, but would also write what is not JSON at
    all (a set, a date, NaN), so it has no business with values nobody has looked at."""
    return to_json(value)


def prover(*, sort_keys: bool = False, ensure_ascii: bool = False, allow_nan: bool = False) -> Callable[[Any], str]:
    """A writer of values that somebody else made: what is not plain JSON raises TypeError or ValueError. As json's own
    encoder without white space, which makes its writer anew for each text."""
    encoder = json.JSONEncoder(
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
        allow_nan=allow_nan,
        check_circular=False,
        separators=(",", ":"),
    )
    made = json.encoder.c_make_encoder  # type: ignore[attr-defined]
    if made is None:
        return encoder.encode
    write = made(
        None,
        encoder.default,
        json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring,
        None,
        encoder.key_separator,
        encoder.item_separator,
        sort_keys,
        False,
        allow_nan,
    )
    join = "".join
    return lambda value: join(write(value, 0))
