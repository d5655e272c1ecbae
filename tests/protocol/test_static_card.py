"""Hand-written cards: read in either form, addresses replaced, mistakes named."""

from __future__ import annotations

from typing import Any

import pytest

from server.protocol.card import merged_card, served_interfaces
from server.protocol.model import Interface
from server.protocol.static_card import CardInvalid, load_static
from tests.protocol.samples import CARD

URL = "https://real/a2a"
CARD_03: dict[str, Any] = {
    "protocolVersion": "0.3.0",
    "name": "Bank",
    "description": "Moves money",
    "version": "2.1",
    "url": "http://localhost:1",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": "http://localhost:1", "transport": "GRPC"}],
    "provider": {"organization": "o", "url": "https://o"},
    "capabilities": {"streaming": False, "stateTransitionHistory": True, "extensions": [{"uri": "urn:e"}]},
    "supportsAuthenticatedExtendedCard": True,
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/html"],
    "securitySchemes": {"b": {"type": "http", "scheme": "Bearer"}},
    "security": [{"b": []}],
    "signatures": [{"protected": "x", "signature": "y"}],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"], "security": [{"b": []}]}],
}


def test_a_card_of_0_3_becomes_the_card_of_this_server() -> None:
    card = merged_card(load_static(CARD_03, URL))
    assert card["name"] == "Bank"
    assert card["url"] == URL
    assert {it["url"] for it in card["supportedInterfaces"]} == {URL}
    assert card["provider"] == CARD_03["provider"]
    assert card["capabilities"] == {
        "extensions": [{"uri": "urn:e"}],
        "streaming": False,
        "pushNotifications": False,
        "extendedAgentCard": True,
    }
    assert card["defaultOutputModes"] == ["text/html"]
    assert card["security"] == [{"b": []}]
    assert card["securityRequirements"] == [{"schemes": {"b": {"list": []}}}]
    assert card["skills"] == CARD_03["skills"]
    assert "signatures" not in card
    assert "localhost" not in str(card)


def test_our_own_merged_card_is_read_back_as_itself() -> None:
    published = merged_card(CARD)
    assert merged_card(load_static(published, "https://h/a2a")) == published


def test_the_smallest_card_gets_defaults() -> None:
    card = load_static({"name": "n", "description": "d", "version": "1"}, URL)
    assert card.interfaces == served_interfaces(URL)
    assert card.streaming is True
    assert card.skills == ()
    assert card.input_modes == ("text/plain",)


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ([("JSONRPC", "1.0")], [Interface(URL, "JSONRPC", "1.0")]),
        ([("JSONRPC", "0.3.0"), ("GRPC", "1.0")], [Interface(URL, "JSONRPC", "0.3")]),
        ([("GRPC", "1.0")], list(served_interfaces(URL))),
        ([("HTTP+JSON", "0.3")], list(served_interfaces(URL))),
    ],
)
def test_listed_interfaces_are_kept_as_far_as_we_serve_them(
    listed: list[tuple[str, str]], kept: list[Interface]
) -> None:
    interfaces = [{"url": "x", "protocolBinding": binding, "protocolVersion": version} for binding, version in listed]
    card = load_static({**CARD_03, "supportedInterfaces": interfaces}, URL)
    assert list(card.interfaces) == kept


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "name is required and must be a non-empty string"),
        ({"name": ""}, "name is required and must be a non-empty string"),
        ({"description": 5}, "description is required and must be a non-empty string"),
        ({"version": 1.0}, "version is required and must be a non-empty string"),
        ({"capabilities": []}, "capabilities must be an object"),
        ({"capabilities": {"streaming": "yes"}}, "capabilities.streaming must be true or false"),
        ({"capabilities": {"extensions": "urn:e"}}, "capabilities.extensions must be an array"),
        ({"skills": {}}, "skills must be an array"),
        ({"skills": ["echo"]}, "skills[0] must be an object"),
        ({"skills": [{"name": "S"}]}, "skills[0].id is required and must be a non-empty string"),
        (
            {"skills": [{"id": "s", "name": "S", "description": "d", "tags": "t"}]},
            "skills[0].tags must be an array",
        ),
        (
            {"skills": [{"id": "s", "name": "S", "description": "d", "tags": [1]}]},
            "skills[0].tags must be an array of non-empty strings",
        ),
        ({"supportedInterfaces": ["x"]}, "supportedInterfaces[0] must be an object"),
        (
            {"supportedInterfaces": [{"url": "x"}]},
            "supportedInterfaces[0].protocolBinding is required and must be a non-empty string",
        ),
        ({"securitySchemes": {"b": "Bearer"}}, "securitySchemes.b must be a security scheme object"),
        ({"securitySchemes": {"b": {"type": []}}}, "securitySchemes.b must be a security scheme object"),
        (
            {"securitySchemes": {"b": {"type": "magic"}}},
            "securitySchemes.b is no security scheme of A2A; "
            "it needs a `type` of apiKey, http, oauth2, openIdConnect, mutualTLS",
        ),
        ({"security": ["b"]}, "security must be an array of objects that name security schemes"),
        (
            {"securityRequirements": [{"schemes": []}]},
            "securityRequirements must be an array of objects that name security schemes",
        ),
        ({"supportsAuthenticatedExtendedCard": 1}, "supportsAuthenticatedExtendedCard must be true or false"),
    ],
)
def test_a_wrong_card_is_refused_by_its_member(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CardInvalid) as refused:
        load_static({**CARD_03, **change}, URL)
    assert str(refused.value) == message


def test_a_card_is_an_object() -> None:
    with pytest.raises(CardInvalid, match="must be a JSON object"):
        load_static([], URL)  # type: ignore[arg-type]
