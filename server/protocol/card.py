"""The agent card: one merged document for clients of both versions, and each version's own view.

 supportedInterfaces, securityRequirements ...   read by 1.0 clients  \\
 name, skills, capabilities, modes ...           read by both          >  merged_card
 url, preferredTransport, security ...           read by 0.3 clients  /

Clients ignore the members they do not know, so the union serves everyone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from server.protocol import security
from server.protocol.model import Card, Interface, JsonObject, Skill

_ETAG = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def served_interfaces(url: str) -> tuple[Interface, ...]:
    """Every interface of a server at `url`, 1.0 first: clients take the first binding they know, then its version.

    HTTP+JSON of 0.3 is a dialect of its own that is not served, so it is not here.
    """
    return (
        Interface(url, "JSONRPC", "1.0"),
        Interface(url.rstrip("/"), "HTTP+JSON", "1.0"),
        Interface(url, "JSONRPC", "0.3"),
    )


def merged_card(card: Card) -> JsonObject:
    """The public card. The 0.3 members describe the 0.3 interfaces only and are left out when there are none."""
    out = _head(card)
    out["supportedInterfaces"] = _supported(card)
    legacy = _legacy_interfaces(card)
    if legacy:
        out.update(_legacy_members(card, legacy))
    out["capabilities"] = _capabilities(card)
    schemes: JsonObject = card.security.get("securitySchemes", {})
    if schemes:
        convert = security.merged if legacy else security.wrapped
        out["securitySchemes"] = {name: convert(scheme) for name, scheme in schemes.items()}
    flat, wrapped = _requirements(card.security)
    if flat and legacy:
        out["security"] = flat
    if wrapped:
        out["securityRequirements"] = wrapped
    return {**out, **_tail(card, lambda extra: extra)}


def card_v0_3(card: Card) -> JsonObject:
    """The extended card for a 0.3 client."""
    interfaces = _legacy_interfaces(card) or card.interfaces
    out = {**_head(card), **_legacy_members(card, interfaces)}
    capabilities = _capabilities(card)
    del capabilities["extendedAgentCard"]
    out["capabilities"] = capabilities
    schemes: JsonObject = card.security.get("securitySchemes", {})
    if schemes:
        out["securitySchemes"] = {name: security.flat(scheme) for name, scheme in schemes.items()}
    requirements, _ = _requirements(card.security)
    if requirements:
        out["security"] = requirements
    return {**out, **_tail(card, lambda extra: _without(extra, "securityRequirements"))}


def card_v1_0(card: Card) -> JsonObject:
    """The extended card for a 1.0 client."""
    out = _head(card)
    out["supportedInterfaces"] = _supported(card)
    out["capabilities"] = _capabilities(card)
    schemes: JsonObject = card.security.get("securitySchemes", {})
    if schemes:
        out["securitySchemes"] = {name: security.wrapped(scheme) for name, scheme in schemes.items()}
    _, requirements = _requirements(card.security)
    if requirements:
        out["securityRequirements"] = requirements
    return {**out, **_tail(card, lambda extra: _without(extra, "security"))}


def etag(card: JsonObject) -> str:
    """A weak ETag that every worker computes alike; signatures are left out because signing is randomised."""
    return f'W/"{sha256(_ETAG.encode(_without(card, "signatures")).encode()).hexdigest()}"'


def _head(card: Card) -> JsonObject:
    return {"name": card.name, "description": card.description, "version": card.version}


def _supported(card: Card) -> list[JsonObject]:
    listed = [entry for entry in card.interfaces if entry.version != "0.3"] + list(_legacy_interfaces(card))
    return [{"url": it.url, "protocolBinding": it.binding, "protocolVersion": it.version} for it in listed]


def _legacy_interfaces(card: Card) -> tuple[Interface, ...]:
    return tuple(entry for entry in card.interfaces if entry.version == "0.3" and entry.binding == "JSONRPC")


def _legacy_members(card: Card, interfaces: tuple[Interface, ...]) -> JsonObject:
    first = interfaces[0]
    return {
        "protocolVersion": "0.3.0",
        "url": first.url,
        "preferredTransport": first.binding,
        "additionalInterfaces": [{"url": entry.url, "transport": entry.binding} for entry in interfaces],
        "supportsAuthenticatedExtendedCard": card.extended_card,
    }


def _capabilities(card: Card) -> JsonObject:
    return {
        **card.extra.get("capabilities", {}),
        "streaming": card.streaming,
        "pushNotifications": card.push_notifications,
        "extendedAgentCard": card.extended_card,
    }


def _requirements(declared: JsonObject) -> tuple[list[Any], list[Any]]:
    """The requirements in the 0.3 and the 1.0 shape; one is derived from the other where only one is given."""
    flat, wrapped = declared.get("security"), declared.get("securityRequirements")
    if flat is None:
        flat = security.flat_requirements(wrapped or [])
    if wrapped is None:
        wrapped = security.wrapped_requirements(flat)
    return flat, wrapped


def _tail(card: Card, view: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Modes, skills and what a static card says beyond our model. 1.0 wants at least one skill."""
    skills = card.skills or (Skill("default", card.name, card.description),)
    return {
        "defaultInputModes": list(card.input_modes),
        "defaultOutputModes": list(card.output_modes),
        "skills": [_skill(skill, view) for skill in skills],
        **_without(card.extra, "capabilities"),
    }


def _skill(skill: Skill, view: Callable[[JsonObject], JsonObject]) -> JsonObject:
    out: JsonObject = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        # Both versions require tags and 1.0 at least one; the id is the one word that is surely about the skill.
        "tags": list(skill.tags) or [skill.id],
    }
    if skill.examples:
        out["examples"] = list(skill.examples)
    if skill.input_modes:
        out["inputModes"] = list(skill.input_modes)
    if skill.output_modes:
        out["outputModes"] = list(skill.output_modes)
    return {**out, **view(skill.extra)}


def _without(members: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in members.items() if key != name}
