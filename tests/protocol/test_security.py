"""Security schemes in the shape of each version and side by side."""

from __future__ import annotations

from typing import Any

import pytest

from server.protocol.security import flat, flat_requirements, merged, wrapped, wrapped_requirements

CODE = {"authorizationUrl": "https://a", "tokenUrl": "https://t", "scopes": {}}
CLIENT = {"tokenUrl": "https://t", "scopes": {"a": "all"}}
DEVICE = {"deviceAuthorizationUrl": "https://d", "tokenUrl": "https://t", "scopes": {}}
PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "apiKey", "in": "query", "name": "k"}, {"apiKeySecurityScheme": {"location": "query", "name": "k"}}),
    (
        {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT", "description": "d"},
        {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT", "description": "d"}},
    ),
    (
        {"type": "oauth2", "flows": {"clientCredentials": CLIENT}, "oauth2MetadataUrl": "https://m"},
        {"oauth2SecurityScheme": {"flows": {"clientCredentials": CLIENT}, "oauth2MetadataUrl": "https://m"}},
    ),
    (
        {"type": "openIdConnect", "openIdConnectUrl": "https://o"},
        {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://o"}},
    ),
    ({"type": "mutualTLS"}, {"mtlsSecurityScheme": {}}),
]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[pair[0]["type"] for pair in PAIRS])
def test_a_scheme_in_any_shape_has_every_shape(old: dict[str, Any], new: dict[str, Any]) -> None:
    for given in (old, new, {**old, **new}):
        assert flat(given) == old
        assert wrapped(given) == new
        assert merged(given) == {**old, **new}


def test_of_several_flows_a_1_0_client_sees_the_best_and_a_0_3_client_all() -> None:
    scheme = {"type": "oauth2", "flows": {"clientCredentials": CLIENT, "authorizationCode": CODE}}
    assert wrapped(scheme) == {"oauth2SecurityScheme": {"flows": {"authorizationCode": CODE}}}
    assert flat(scheme) == scheme


def test_side_by_side_there_is_one_flow_because_1_0_clients_refuse_two() -> None:
    scheme = {"type": "oauth2", "flows": {"clientCredentials": CLIENT, "authorizationCode": CODE}}
    assert merged(scheme)["flows"] == {"authorizationCode": CODE}


def test_what_0_3_has_no_word_for_is_not_said_in_its_view() -> None:
    pkce = {"oauth2SecurityScheme": {"flows": {"authorizationCode": {**CODE, "pkceRequired": True}}}}
    assert flat(pkce) == {"type": "oauth2", "flows": {"authorizationCode": CODE}}
    device = {"oauth2SecurityScheme": {"flows": {"deviceCode": DEVICE}}}
    assert flat(device) == {"type": "oauth2", "flows": {}}
    # Side by side it must stay, for a 1.0 client that sees `type` reads the flat members.
    assert merged(device)["flows"] == {"deviceCode": DEVICE}


@pytest.mark.parametrize("scheme", [{}, {"type": "magic"}, {"scheme": "Bearer"}])
def test_what_is_no_scheme_is_refused(scheme: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is no security scheme of A2A"):
        wrapped(scheme)
    with pytest.raises(ValueError, match="is no security scheme of A2A"):
        merged(scheme)


def test_requirements_translate_both_ways() -> None:
    old = [{"b": [], "k": ["read"]}, {}]
    new = [{"schemes": {"b": {"list": []}, "k": {"list": ["read"]}}}, {"schemes": {}}]
    assert wrapped_requirements(old) == new
    assert flat_requirements(new) == old
    assert flat_requirements([{"schemes": {"b": {}}}]) == [{"b": []}]
