"""How to come in, as the agent card says it, in both dialects."""

from typing import Any

from server.auth.api_key import HEADER
from server.auth.settings import AuthSettings

# Dialect 0.3 is flat (OpenAPI), 1.0 wraps each scheme in a member named after its kind.
_FLAT: dict[str, dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
    "api_key": {"type": "apiKey", "in": "header", "name": HEADER},
}
_WRAPPED: dict[str, dict[str, Any]] = {
    "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
    "api_key": {"apiKeySecurityScheme": {"location": "header", "name": HEADER}},
}
_NAMES = {"bearer": "bearer", "api_key": "apiKey"}


def card_security(settings: AuthSettings | None, *, v0_3: bool = True, v1_0: bool = True) -> dict[str, Any]:
    """Return the card members about security for one dialect or, side by side, for both; none without auth."""
    if settings is None or not (v0_3 or v1_0):
        return {}
    name = _NAMES[settings.type]
    scheme: dict[str, Any] = {}
    members: dict[str, Any] = {"securitySchemes": {name: scheme}}
    if v1_0:
        scheme.update({kind: dict(body) for kind, body in _WRAPPED[settings.type].items()})
        members["securityRequirements"] = [{"schemes": {name: {"list": []}}}]
    if v0_3:
        scheme.update(_FLAT[settings.type])
        members["security"] = [{name: []}]
    return members
