"""What pydantic found, said for the person who wrote the file: code, line, sentence and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined

from server.config.document import Document, Override, Place, nearest
from server.config.problems import PREFIX, ConfigProblem, problem
from server.config.settings import Settings

# Kinds of mistakes by the beginning of pydantic's name for them; the first that fits.
_CODES = (
    ("missing", "missing_key"),
    ("extra_forbidden", "unknown_key"),
    ("literal_error", "not_a_choice"),
    ("enum", "not_a_choice"),
    ("greater_than", "out_of_range"),
    ("less_than", "out_of_range"),
    ("too_", "out_of_range"),
    ("string_too", "out_of_range"),
    ("out_of_range", "out_of_range"),
    ("finite", "out_of_range"),
    ("int_", "wrong_type"),
    ("float_", "wrong_type"),
    ("bool_", "wrong_type"),
    ("string_type", "wrong_type"),
    ("path_", "wrong_type"),
    ("tuple_type", "wrong_type"),
    ("dict_type", "wrong_type"),
    ("model_type", "wrong_type"),
    ("model_attributes_type", "wrong_type"),
    ("number_type", "wrong_type"),
    ("url_invalid", "url_invalid"),
    ("redis_url_invalid", "redis_url_invalid"),
    ("host_invalid", "host_invalid"),
    ("network_invalid", "network_invalid"),
)


def explain(
    error: ValidationError, document: Document, silent: Mapping[Place, bool], overrides: Mapping[str, Override]
) -> Iterator[ConfigProblem]:
    """`silent` places were interpolated (their value is never shown) or refused before (they are left out)."""
    for detail in error.errors(include_url=False):
        place: Place = detail["loc"]
        # A default that could not be derived from another key is that key's mistake, which is reported anyway.
        if detail["type"] == "default_factory_not_called" or silent.get(place):
            continue
        override = overrides.get(str(place[0])) if place else None
        where = override.where if override else document.where(place)
        code = _code(detail)
        if code == "unknown_key":
            yield problem(code, where, f"{_name(place)} is not a setting.", _meant(place))
            continue
        shown = None if override or place in silent else _shown(document.values, place)
        message = f"{_name(place)}: {_sentence(detail)}{f', not {shown}' if shown else ''}."
        yield problem(code, where, message, _hint(detail, place))


def _code(detail: ErrorDetails) -> str:
    if detail["type"].startswith(PREFIX):  # a check of the auth block, which names its own code
        return detail["type"].removeprefix(PREFIX)
    return next((code for start, code in _CODES if detail["type"].startswith(start)), "invalid_value")


def _sentence(detail: ErrorDetails) -> str:
    text = detail["msg"].removesuffix(".")
    return text.removeprefix("Input ") if text.startswith("Input ") else text[:1].lower() + text[1:]


def _hint(detail: ErrorDetails, place: Place) -> str:
    if detail["type"] == "string_type":
        return "Put the value in quotes."
    field = Settings.model_fields.get(str(place[0])) if place else None
    if field is None or len(place) > 1:
        return "Correct this setting."
    if field.default is PydanticUndefined or field.default is None:
        return f"{field.description}"
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"Correct it, or remove it for the default ({default}). {field.description}"


def _meant(place: Place) -> str:
    valid = sorted(_valid_names(place[:-1]))
    meant = nearest(str(place[-1]), valid)
    if meant:
        return f"Did you mean {meant}?"
    return f"Remove it. Valid here: {', '.join(valid)}." if valid else "Remove it."


def _valid_names(place: Place) -> set[str]:
    models: list[type[BaseModel]] = [Settings]
    for step in place:
        if isinstance(step, str):
            fields = (model.model_fields[step] for model in models if step in model.model_fields)
            models = [model for field in fields for model in _models(field.annotation)]
    return {
        name
        for model in models
        for name, field in model.model_fields.items()
        if not (isinstance(field.json_schema_extra, dict) and "flag" in field.json_schema_extra)
    }


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _shown(values: Any, place: Place) -> str | None:
    """The value as it stands in the file; nothing for what lies in the auth block or is not one short value."""
    if place[:1] == ("auth",):
        return None
    for step in place:
        try:
            values = values[step]
        except (KeyError, IndexError, TypeError):
            return None
    return repr(values) if isinstance(values, str | int | float) and len(repr(values)) <= 80 else None


def _name(place: Place) -> str:
    return ".".join(str(step) for step in place) or "settings"
