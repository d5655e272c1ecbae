"""Readers of single members, where a request's table cannot show the edge."""

from __future__ import annotations

from typing import Any

import pytest

from server.protocol.errors import ParamsInvalid
from server.protocol.fields import base64_text, ident, json_value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_too_deep_to_be_stored_is_refused_and_not_a_crash() -> None:
    assert json_value(nested(50), "data") == nested(50)
    with pytest.raises(ParamsInvalid, match="data: is nested too deeply"):
        json_value(nested(100_000), "data")


@pytest.mark.parametrize("value", ["a b", "ünïcödé", "a\u2028b", "日本", "x" * 512, ":/?#"])
def test_ids_may_be_any_text_without_control_characters(value: str) -> None:
    assert ident(value, "id") == value


def test_a_large_file_is_checked_in_one_pass() -> None:
    content = "QUJD" * 250_000
    assert base64_text(content, "raw") is content
