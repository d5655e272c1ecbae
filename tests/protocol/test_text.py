"""JSON text: what the prover writes, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.protocol.text import encode, prover

VALUES: list[Any] = [
    None,
    "",
    'é"\\\n\x7f\u2028',
    [1, -0.0, 1e300, 2**70, True],
    {"b": {"a": []}, "a": [{}], "ü": None},
    ("tuples", "are", "lists"),
]


@pytest.mark.parametrize("value", VALUES)
def test_it_writes_what_the_library_writes(value: Any) -> None:
    assert prover()(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert prover(sort_keys=True, ensure_ascii=True)(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert json.loads(encode(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", float("nan"), [float("inf")], {"a": {("k",): 1}}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        prover()(value)


def test_it_can_be_used_again_after_a_refusal() -> None:
    prove = prover()
    with pytest.raises(TypeError):
        prove([1, {"a": {1}}])
    assert prove([1, {"a": 1}]) == '[1,{"a":1}]'
