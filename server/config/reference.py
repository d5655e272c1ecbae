"""The configuration reference, made from the settings themselves: `python -m server.config.reference`."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from server.auth.settings import ApiKeySettings, AuthSettings, JwtSettings, KeySettings
from server.config.settings import Settings

HEAD = """# Configuration

`endpoints.yml`, block `a2a_server`. Every key has a default, except `description`, which the file must have. `${VAR}`
is replaced from the environment; passwords and secrets must come that way. An unknown key, a wrong type or a value out
of range stops the start with a code, the line, and what to do; `nonstick check` with the flags of `run` prints what
would run. Flags win over the file, the file over `REDIS_URL`. All workers of a fleet should have the same settings; in
a rolling change the old and the new ones hold side by side.

This page is made from the settings themselves: `python -m server.config.reference > docs/configuration.md`.
"""
AUTH = """## auth

Who may call. `type: bearer` verifies tokens with `jwt`, `type: api_key` compares keys. What it protects, and what it
does not, is in [security.md](security.md).
"""
FLAGS = """## Flags and variables

`nonstick run --help` explains the flags: `--agent`, `--assistant`, `--endpoints`, `--workers`, `--port`,
`--interface`, `--ssl-certificate`, `--ssl-keyfile`, `--redis`, `--embedded`, `--data-dir`, `--log-level`. The only
variable read without being named in the file is `REDIS_URL`.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD, "## a2a_server\n", *_entries(Settings), AUTH]
    blocks: dict[str, type[BaseModel]] = {
        "auth": AuthSettings,
        "auth.jwt": JwtSettings,
        "auth.jwt.keys": KeySettings,
        "auth.api_keys": ApiKeySettings,
    }
    parts += [_table(title, model) for title, model in blocks.items()]
    return "\n".join([*parts, FLAGS])


def _entries(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and "flag" in extra:
            continue
        facts = [_kind(field.annotation), _default(name, field), *_bounds(field)]
        yield f"### {name}\n\n{'; '.join(fact for fact in facts if fact)}.\n\n{field.description}\n"


def _table(title: str, model: type[BaseModel]) -> str:
    rows = [
        f"| `{title}.{name}` | {_kind(field.annotation)} | {_default(name, field).removeprefix('default ')} |"
        for name, field in model.model_fields.items()
    ]
    return "\n".join(["| key | what | default |", "|---|---|---|", *rows, ""])


def _kind(annotation: Any) -> str:
    """A type as an operator reads it."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(arg) for arg in args if arg is not type(None))
    if origin is typing.Literal:
        return " or ".join(f"`{_yaml(arg)}`" for arg in args)
    if origin in (tuple, list):
        return f"list of {_kind(args[0])}s"
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return " or ".join(f"`{member.value}`" for member in annotation)
        if issubclass(annotation, BaseModel):
            return "block"
        names = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`", Path: "path"}
        return names.get(annotation, "secret" if issubclass(annotation, SecretStr) else "text")
    return "text"


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required() and field.default is PydanticUndefined:
        return "required"
    if field.default_factory is not None:
        return "default as below"
    match field.default:
        case None:
            return "required in the file" if name == "description" else "not set"
        case () | []:
            return "default none"
        case value:
            return f"default `{_yaml(value)}`"


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bounds(field: FieldInfo) -> Iterator[str]:
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    for rule in field.metadata:
        for name, word in words.items():
            value = getattr(rule, name, None)
            if value is not None:
                yield f"{word} {value:,}".replace(",", " ")


if __name__ == "__main__":
    sys.stdout.write(render())
