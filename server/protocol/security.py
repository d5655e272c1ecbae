"""Security schemes and requirements of a card in both shapes: flat as in OpenAPI (0.3), wrapped by type (1.0)."""

from __future__ import annotations

from typing import Any

from server.protocol.model import JsonObject

# The 0.3 `type` of a scheme and the 1.0 member that wraps it.
_WRAPPERS = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
_TYPES = {wrapper: kind for kind, wrapper in _WRAPPERS.items()}
# 1.0 holds one flow per scheme; of several, the one a client can best use.
_FLOWS = ("authorizationCode", "clientCredentials", "deviceCode", "implicit", "password")
_FLOWS_03 = frozenset(_FLOWS) - {"deviceCode"}


def merged(scheme: JsonObject) -> JsonObject:
    """Both shapes side by side, for a card that both versions read.

    A 1.0 client that sees `type` takes the flat members for the scheme and chokes on a second OAuth flow, so these are
    exactly the wrapped ones; a 0.3 client ignores what it does not know of them.
    """
    wrapper = wrapped(scheme)
    ((name, inner),) = wrapper.items()
    return {**wrapper, **_flattened(_TYPES[name], inner)}


def flat(scheme: JsonObject) -> JsonObject:
    """The 0.3 shape of a scheme given in either shape or in both."""
    if "type" in scheme:
        return {name: value for name, value in scheme.items() if name not in _TYPES}
    ((name, inner),) = wrapped(scheme).items()
    out = _flattened(_TYPES[name], inner)
    if "flows" in out:
        out["flows"] = {name: _without_pkce(flow) for name, flow in out["flows"].items() if name in _FLOWS_03}
    return out


def wrapped(scheme: JsonObject) -> JsonObject:
    """The 1.0 shape of a scheme given in either shape or in both."""
    for wrapper in _TYPES:
        if wrapper in scheme:
            return {wrapper: scheme[wrapper]}
    kind = scheme.get("type")
    if kind not in _WRAPPERS:
        raise ValueError(f"is no security scheme of A2A; it needs a `type` of {', '.join(_WRAPPERS)}")
    inner = {name: value for name, value in scheme.items() if name != "type"}
    if kind == "apiKey":
        inner["location"] = inner.pop("in", "header")
    elif kind == "oauth2":
        flows = inner.get("flows", {})
        inner["flows"] = {name: flows[name] for name in [name for name in _FLOWS if name in flows][:1]}
    return {_WRAPPERS[kind]: inner}


def flat_requirements(requirements: list[Any]) -> list[Any]:
    """`security` from `securityRequirements`."""
    return [
        {name: scopes.get("list", []) for name, scopes in entry.get("schemes", {}).items()} for entry in requirements
    ]


def wrapped_requirements(requirements: list[Any]) -> list[Any]:
    """`securityRequirements` from `security`."""
    return [{"schemes": {name: {"list": scopes} for name, scopes in entry.items()}} for entry in requirements]


def _flattened(kind: str, inner: JsonObject) -> JsonObject:
    out = {"type": kind, **inner}
    if kind == "apiKey":
        out["in"] = out.pop("location", "header")
    return out


def _without_pkce(flow: JsonObject) -> JsonObject:
    return {name: value for name, value in flow.items() if name != "pkceRequired"}
