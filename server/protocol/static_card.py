"""A card written by hand, in the form of either version, read into the model with this server's addresses."""

from __future__ import annotations

from typing import Any

from server.protocol import security
from server.protocol.card import served_interfaces
from server.protocol.model import Card, Interface, JsonObject, Skill

# Signatures are among the members not carried over: they were made over another `url`.
_INTERPRETED = frozenset(
    {
        "additionalInterfaces",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
        "description",
        "name",
        "preferredTransport",
        "protocolVersion",
        "security",
        "securityRequirements",
        "securitySchemes",
        "signatures",
        "skills",
        "supportedInterfaces",
        "supportsAuthenticatedExtendedCard",
        "url",
        "version",
    }
)
_SKILL_MEMBERS = frozenset({"id", "name", "description", "tags", "examples", "inputModes", "outputModes"})


class CardInvalid(ValueError):
    """The static card cannot be served; the message names the member and what it must be."""


def load_static(raw: JsonObject, url: str) -> Card:
    """The card with every address replaced by `url`.

    The interfaces it lists are kept as far as we serve them; without a list, all of ours are advertised.
    """
    if not isinstance(raw, dict):
        raise CardInvalid("the agent card must be a JSON object")
    capabilities = _object(raw, "capabilities")
    extra = {name: value for name, value in raw.items() if name not in _INTERPRETED}
    if capabilities.get("extensions"):
        extra["capabilities"] = {"extensions": _list(capabilities, "extensions", "capabilities.")}
    legacy_extended = _flag(raw, "supportsAuthenticatedExtendedCard", False)
    return Card(
        name=_text(raw, "name"),
        description=_text(raw, "description"),
        version=_text(raw, "version"),
        interfaces=_interfaces(raw, url),
        skills=tuple(_skill(item, prefix) for prefix, item in _numbered(raw, "skills")),
        streaming=_flag(capabilities, "streaming", True, "capabilities."),
        push_notifications=_flag(capabilities, "pushNotifications", False, "capabilities."),
        extended_card=_flag(capabilities, "extendedAgentCard", legacy_extended, "capabilities."),
        input_modes=_texts(raw, "defaultInputModes") or ("text/plain",),
        output_modes=_texts(raw, "defaultOutputModes") or ("text/plain",),
        security=_security(raw),
        extra=extra,
    )


def _interfaces(raw: JsonObject, url: str) -> tuple[Interface, ...]:
    served = served_interfaces(url)
    listed = {
        (_text(item, "protocolBinding", f"{prefix}."), _major_minor(_text(item, "protocolVersion", f"{prefix}.")))
        for prefix, item in _numbered(raw, "supportedInterfaces")
    }
    return tuple(entry for entry in served if (entry.binding, entry.version) in listed) or served


def _skill(raw: JsonObject, path: str) -> Skill:
    prefix = f"{path}."
    return Skill(
        id=_text(raw, "id", prefix),
        name=_text(raw, "name", prefix),
        description=_text(raw, "description", prefix),
        tags=_texts(raw, "tags", prefix),
        examples=_texts(raw, "examples", prefix),
        input_modes=_texts(raw, "inputModes", prefix),
        output_modes=_texts(raw, "outputModes", prefix),
        extra={name: value for name, value in raw.items() if name not in _SKILL_MEMBERS},
    )


def _security(raw: JsonObject) -> JsonObject:
    """The members as given, proved to convert to the shape of the other version."""
    out: JsonObject = {}
    for name, scheme in _object(raw, "securitySchemes").items():
        try:
            security.flat(scheme)
            security.wrapped(scheme)
        except ValueError as error:
            raise CardInvalid(f"securitySchemes.{name} {error}") from None
        except (TypeError, AttributeError):
            raise CardInvalid(f"securitySchemes.{name} must be a security scheme object") from None
        out.setdefault("securitySchemes", {})[name] = scheme
    for member, convert in (
        ("security", security.wrapped_requirements),
        ("securityRequirements", security.flat_requirements),
    ):
        if requirements := _list(raw, member):
            try:
                convert(requirements)
            except AttributeError:
                raise CardInvalid(f"{member} must be an array of objects that name security schemes") from None
            out[member] = requirements
    return out


def _numbered(raw: JsonObject, name: str) -> list[tuple[str, JsonObject]]:
    """The objects of an array, each with its path."""
    items = [(f"{name}[{index}]", item) for index, item in enumerate(_list(raw, name))]
    for path, item in items:
        if not isinstance(item, dict):
            raise CardInvalid(f"{path} must be an object")
    return items


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _text(raw: JsonObject, name: str, prefix: str = "") -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value:
        raise CardInvalid(f"{prefix}{name} is required and must be a non-empty string")
    return value


def _texts(raw: JsonObject, name: str, prefix: str = "") -> tuple[str, ...]:
    values = _list(raw, name, prefix)
    if not all(isinstance(value, str) and value for value in values):
        raise CardInvalid(f"{prefix}{name} must be an array of non-empty strings")
    return tuple(values)


def _list(raw: JsonObject, name: str, prefix: str = "") -> list[Any]:
    value = raw.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise CardInvalid(f"{prefix}{name} must be an array")
    return value


def _object(raw: JsonObject, name: str) -> JsonObject:
    value = raw.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CardInvalid(f"{name} must be an object")
    return value


def _flag(raw: JsonObject, name: str, default: bool, prefix: str = "") -> bool:
    value = raw.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise CardInvalid(f"{prefix}{name} must be true or false")
    return value
