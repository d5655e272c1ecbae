"""The card that both versions read, each version's own view of it, and its ETag."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from server.protocol.card import card_v0_3, card_v1_0, etag, merged_card, served_interfaces
from server.protocol.model import Card, Interface, Skill
from tests.protocol.samples import CARD

SKILL = {
    "id": "echo",
    "name": "Echo",
    "description": "Echoes text",
    "tags": ["demo"],
    "examples": ["say hi"],
    "inputModes": ["text/plain"],
    "outputModes": ["text/plain"],
}
MODES = ["text/plain", "application/json"]
SUPPORTED = [
    {"url": "https://h/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    {"url": "https://h/a2a", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    {"url": "https://h/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
]


def test_the_merged_card_serves_both_versions() -> None:
    assert merged_card(CARD) == {
        "name": "Echo",
        "description": "Echoes",
        "version": "1.0.0",
        "supportedInterfaces": SUPPORTED,
        "protocolVersion": "0.3.0",
        "url": "https://h/a2a",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "https://h/a2a", "transport": "JSONRPC"}],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "supportsAuthenticatedExtendedCard": True,
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "Bearer"}},
        "security": [{"b": []}],
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [SKILL],
    }


def test_the_0_3_view_has_no_member_of_1_0() -> None:
    assert card_v0_3(CARD) == {
        "name": "Echo",
        "description": "Echoes",
        "version": "1.0.0",
        "protocolVersion": "0.3.0",
        "url": "https://h/a2a",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "https://h/a2a", "transport": "JSONRPC"}],
        "supportsAuthenticatedExtendedCard": True,
        "capabilities": {"streaming": True, "pushNotifications": True},
        "securitySchemes": {"b": {"type": "http", "scheme": "Bearer"}},
        "security": [{"b": []}],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [SKILL],
    }


def test_the_1_0_view_has_no_member_of_0_3() -> None:
    assert card_v1_0(CARD) == {
        "name": "Echo",
        "description": "Echoes",
        "version": "1.0.0",
        "supportedInterfaces": SUPPORTED,
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"b": {"list": []}}}],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": [SKILL],
    }


def test_an_open_endpoint_says_nothing_of_security() -> None:
    for view in (merged_card, card_v0_3, card_v1_0):
        assert not {"securitySchemes", "security", "securityRequirements"} & view(replace(CARD, security={})).keys()


def test_interfaces_of_1_0_come_first_and_unserved_ones_not_at_all() -> None:
    interfaces = (
        Interface("https://h/rest", "HTTP+JSON", "0.3"),
        Interface("https://h", "JSONRPC", "0.3"),
        Interface("https://h", "JSONRPC", "1.0"),
    )
    card = merged_card(replace(CARD, interfaces=interfaces))
    assert [(it["protocolBinding"], it["protocolVersion"]) for it in card["supportedInterfaces"]] == [
        ("JSONRPC", "1.0"),
        ("JSONRPC", "0.3"),
    ]
    assert card["additionalInterfaces"] == [{"url": "https://h", "transport": "JSONRPC"}]


def test_without_0_3_there_are_no_members_of_0_3() -> None:
    card = merged_card(replace(CARD, interfaces=(Interface("https://h", "JSONRPC", "1.0"),)))
    assert not {"url", "protocolVersion", "preferredTransport", "additionalInterfaces", "security"} & card.keys()
    assert "supportsAuthenticatedExtendedCard" not in card
    assert card["securitySchemes"] == {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    assert card_v0_3(replace(CARD, interfaces=(Interface("https://h", "JSONRPC", "1.0"),)))["url"] == "https://h"


def test_served_interfaces_join_paths_without_a_double_slash() -> None:
    assert [it.url for it in served_interfaces("http://h:5005/")] == [
        "http://h:5005/",
        "http://h:5005",
        "http://h:5005/",
    ]


@pytest.mark.parametrize("view", [merged_card, card_v0_3, card_v1_0])
def test_every_card_has_a_skill_and_every_skill_a_tag(view: Any) -> None:
    (skill,) = view(replace(CARD, skills=(Skill("s", "S", "does"),)))["skills"]
    assert skill == {"id": "s", "name": "S", "description": "does", "tags": ["s"]}
    (skill,) = view(replace(CARD, skills=()))["skills"]
    assert skill == {"id": "default", "name": "Echo", "description": "Echoes", "tags": ["default"]}


def test_members_we_do_not_interpret_are_shown_as_given() -> None:
    extra = {"iconUrl": "https://i", "capabilities": {"extensions": [{"uri": "urn:e"}]}}
    skill = Skill("s", "S", "d", extra={"security": [{"b": []}], "securityRequirements": [], "x-own": 1})
    card = replace(CARD, extra=extra, skills=(skill,))
    for view in (merged_card, card_v0_3, card_v1_0):
        shown = view(card)
        assert shown["iconUrl"] == "https://i"
        assert shown["capabilities"]["extensions"] == [{"uri": "urn:e"}]
        assert shown["capabilities"]["streaming"] is True
        assert shown["skills"][0]["x-own"] == 1
    assert "securityRequirements" not in card_v0_3(card)["skills"][0]
    assert "security" not in card_v1_0(card)["skills"][0]


def test_the_etag_is_weak_and_depends_on_content_alone() -> None:
    card = merged_card(CARD)
    assert re.fullmatch(r'W/"[0-9a-f]{64}"', etag(card))
    assert etag(card) == etag(dict(reversed(card.items())))
    assert etag(card) == etag({**card, "signatures": [{"protected": "x", "signature": "y"}]})
    assert etag(card) != etag(merged_card(replace(CARD, version="1.0.1")))


def test_requirements_given_in_the_shape_of_1_0_reach_0_3_clients() -> None:
    declared = {
        "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        "securityRequirements": [{"schemes": {"k": {"list": ["read"]}}}],
    }
    card: Card = replace(CARD, security=declared)
    assert card_v0_3(card)["security"] == [{"k": ["read"]}]
    assert card_v0_3(card)["securitySchemes"] == {"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    assert merged_card(card)["securityRequirements"] == declared["securityRequirements"]
