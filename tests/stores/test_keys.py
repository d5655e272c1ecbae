"""Ids that are made without the library's objects are the same as with them."""

from __future__ import annotations

import uuid

import pytest

from stores.keys import derived_context_id, derived_uuid, new_uuid


@pytest.mark.parametrize("text", ["", "task message 1", "ü" * 500])
def test_a_derived_uuid_is_the_librarys(text: str) -> None:
    assert derived_uuid(text) == str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def test_a_new_uuid_is_one_of_version_4_and_its_own() -> None:
    made = {new_uuid() for _ in range(500)}
    assert len(made) == 500
    for text in made:
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)


def test_a_derived_context_is_the_callers_own() -> None:
    message = str(uuid.uuid4())
    first, second = derived_context_id("a", message), derived_context_id("b", message)
    assert first == derived_context_id("a", message) != second
    assert uuid.UUID(first).variant == uuid.RFC_4122
