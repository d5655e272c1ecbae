"""A caller's key is its own: no other scheme, issuer or subject produces it."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.auth.caller import ANONYMOUS, caller, caller_key, printable


def test_a_key_is_32_hex_digits() -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", ANONYMOUS.key)


def test_keys_stay_the_same_across_releases() -> None:
    # A changed hash would orphan every stored context.
    assert caller_key("bearer", "https://issuer.example", "alice") == "4cf769b14f36a599d8e4b0335357debc"


def test_an_api_key_a_token_and_nobody_are_three_callers_even_with_equal_text() -> None:
    schemes = ("bearer", "api_key", "anonymous")
    assert len({caller(scheme, "", "").key for scheme in schemes}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("bearer", "ab", "c"), ("bearer", "a", "bc")),
        (("bearer", "", "abc"), ("bearer", "abc", "")),
        (("bearera", "", "b"), ("bearer", "a", "b")),
        (("bearer", "i", "alice"), ("bearer", "i", "Alice")),
        (("bearer", "i", "alice"), ("bearer", "i", "alice ")),
        (("bearer", "i", "alice"), ("bearer", "i", "аlice")),
        (("bearer", "i", "é"), ("bearer", "i", "e\u0301")),
        (("bearer", "i", "a\0b"), ("bearer", "i", "ab")),
        (("bearer", "i", "\ud800"), ("bearer", "i", "\ufffd")),
    ],
)
def test_parts_cannot_be_shifted_or_folded_into_each_other(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert caller_key(*one) != caller_key(*other)


_PARTS = st.tuples(st.text(), st.text(), st.text())


@given(_PARTS, _PARTS)
def test_different_triples_have_different_keys(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (caller_key(*one) == caller_key(*other)) is (one == other)


def test_a_caller_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ANONYMOUS.key = "0" * 32  # type: ignore[misc]


def test_a_display_name_cannot_forge_a_log_line() -> None:
    found = caller("bearer", "", "eve\n2031-01-01 INFO all is well\x1b[2J")
    assert found.display == "eve\ufffd2031-01-01 INFO all is well\ufffd[2J"
    assert found.subject.startswith("eve\n")


def test_a_display_name_is_cut_to_a_readable_length() -> None:
    assert len(printable("x" * 5000)) == 120
    assert printable("x" * 120) == "x" * 120
