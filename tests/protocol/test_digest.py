"""What makes two messages the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from server.protocol.digest import message_digest
from server.protocol.model import Part, PushConfig, Role, SendMessage
from tests.protocol.samples import ANSWER
from tests.protocol.strategies import sends
from tests.protocol.wire import message_03, message_10, send_03, send_10

SEND = SendMessage(ANSWER, metadata={"a": 1, "b": {"c": 2, "d": 3}})


def with_message(**changes: Any) -> SendMessage:
    return replace(SEND, message=replace(ANSWER, **changes))


def test_one_message_in_two_dialects_has_one_digest() -> None:
    old = send_03(
        message_03(
            taskId="t",
            metadata={"b": 1, "a": 2},
            parts=[
                {"kind": "text", "text": "ü\u2028"},
                {"kind": "file", "file": {"bytes": "/+8=", "name": "n", "mimeType": "image/png"}},
                {"kind": "file", "file": {"uri": "https://x"}},
                {"kind": "data", "data": {"x": 1, "y": None}},
                {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": True}},
            ],
        ),
        metadata={},
    )
    new = send_10(
        message_10(
            taskId="t",
            metadata={"a": 2.0, "b": 1.0},
            parts=[
                {"text": "ü\u2028"},
                {"raw": "_-8", "filename": "n", "mediaType": "image/png"},
                {"url": "https://x"},
                {"data": {"y": None, "x": 1.0}},
                {"data": [1]},
            ],
        ),
        configuration={"returnImmediately": True},
    )
    assert message_digest(old) == message_digest(new)


@pytest.mark.parametrize(
    "same",
    [
        with_message(message_id="another"),
        with_message(context_id="another"),
        with_message(context_id=None),
        replace(SEND, wait=False),
        replace(SEND, history_length=3),
        replace(SEND, accepted_output_modes=("text/plain",)),
        replace(SEND, push=PushConfig(None, "https://h")),
        replace(SEND, metadata={"b": {"d": 3, "c": 2}, "a": 1}),
        replace(SEND, metadata={"b": {"d": 3.0, "c": 2}, "a": 1.0}),
    ],
)
def test_address_options_and_order_of_keys_do_not_count(same: SendMessage) -> None:
    assert message_digest(same) == message_digest(SEND)


@pytest.mark.parametrize(
    "other",
    [
        with_message(role=Role.USER),
        with_message(task_id="another"),
        with_message(task_id=None),
        with_message(parts=ANSWER.parts[:-1]),
        with_message(parts=ANSWER.parts[::-1]),
        with_message(parts=()),
        with_message(metadata=None),
        with_message(metadata={"k": 1}),
        with_message(extensions=()),
        with_message(reference_task_ids=("another",)),
        replace(SEND, metadata=None),
        replace(SEND, metadata={"a": True, "b": {"c": 2, "d": 3}}),
        replace(SEND, metadata={"a": "1", "b": {"c": 2, "d": 3}}),
    ],
)
def test_content_counts(other: SendMessage) -> None:
    assert message_digest(other) != message_digest(SEND)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Part("text", "1"), Part("data", "1")),
        (Part("text", "u"), Part("url", "u")),
        (Part("data", None), Part("data", {})),
        (Part("data", 1), Part("data", True)),
        (Part("data", 2**53), Part("data", 2**53 + 1)),
        (Part("data", 0.5), Part("data", 0)),
        (Part("url", "u", "n"), Part("url", "u", None, "n")),
        (Part("text", "a"), Part("text", "a", metadata={"k": 1})),
    ],
)
def test_parts_that_differ_in_any_way_differ(one: Part, two: Part) -> None:
    assert message_digest(with_message(parts=(one,))) != message_digest(with_message(parts=(two,)))


@given(sends)
def test_a_digest_is_32_hex_characters_for_anything(send: SendMessage) -> None:
    digest = message_digest(send)
    assert len(digest) == 32
    assert int(digest, 16) >= 0
    assert digest == message_digest(send)
