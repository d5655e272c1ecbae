"""`${VAR}` in a settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.config import ConfigRefused
from server.config.endpoints import load_settings
from server.config.interpolate import MalformedReference, UnsetVariable, interpolate
from tests.config.files import write


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${A}", "1"),
        ("x${A}y${B}", "x1y"),
        ("plain $A $ {A}", "plain $A $ {A}"),
        ("$${A}", "${A}"),
        ("${A}}", "1}"),
        ("${REF}", "${A}"),  # what a variable holds is not looked at again
    ],
)
def test_references_are_replaced(text: str, result: str) -> None:
    assert interpolate(text, {"A": "1", "B": "", "REF": "${A}"}) == result


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(UnsetVariable, match="NOPE"):
        interpolate("a ${NOPE}", {})


@pytest.mark.parametrize("text", ["${}", "${1A}", "${A-B}", "${A:-1}", "${A", "${ A }"])
def test_what_only_looks_like_a_reference_is_refused(text: str) -> None:
    with pytest.raises(MalformedReference):
        interpolate(text, {"A": "1"})


def test_numbers_and_switches_can_come_from_the_environment(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "a2a_server:\n  description: ${D}\n  max_contexts: ${N}\n  lenient_version: ${L}\n  drain_seconds: ${S}",
    )

    settings, problems = load_settings(file, {"D": "hi", "N": "12", "L": "false", "S": "1.5"})

    assert problems == []
    assert (settings.max_contexts, settings.lenient_version, settings.drain_seconds) == (12, False, 1.5)


def test_what_a_variable_holds_is_never_shown(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server:\n  description: x\n  max_contexts: ${N}\n  redis_url: ${R}")

    with pytest.raises(ConfigRefused) as refused:
        load_settings(file, {"N": "hush", "R": "hush://hush"})

    assert [problem.code.rpartition(".")[2] for problem in refused.value.problems] == [
        "wrong_type",
        "redis_url_invalid",
    ]
    assert "hush" not in str(refused.value)


def test_a_store_password_from_the_environment_is_accepted(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server:\n  description: x\n  redis_url: redis://:${P}@host:6379/0")

    settings, problems = load_settings(file, {"P": "hush"})

    assert problems == []
    assert settings.store_url == "redis://:hush@host:6379/0"
