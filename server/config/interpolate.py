"""`${VAR}` in the text of a settings file, replaced by what the environment says."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
# `$${` is the way to write a literal `${`; a `${` that is no reference is a mistake and not text, since a misspelt
# reference that passed as text would be used as a password.
_REFERENCE = re.compile(rf"(?P<escaped>\$\$\{{)|\$\{{(?P<name>{_NAME})\}}|(?P<malformed>\$\{{[^}}]*\}}?)")
_ONLY_A_REFERENCE = re.compile(rf"\$\{{{_NAME}\}}")


class UnsetVariable(Exception):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the environment variable {name} is not set")


class MalformedReference(Exception):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text} is not a reference to an environment variable")


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        if match["malformed"]:
            raise MalformedReference(match["malformed"])
        if match["name"] not in environ:
            raise UnsetVariable(match["name"])
        return environ[match["name"]]

    return _REFERENCE.sub(replace, text)


def has_reference(text: str) -> bool:
    return any(match["name"] for match in _REFERENCE.finditer(text))


def is_reference(text: str) -> bool:
    """Whether the text is one reference with nothing around it, as a secret must be."""
    return _ONLY_A_REFERENCE.fullmatch(text.strip()) is not None
