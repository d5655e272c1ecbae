"""The card tells both dialects how to come in."""

import pytest

from server.auth.schemes import card_security
from server.auth.settings import AuthSettings
from tests.auth.support import bearer_settings

API_KEYS = AuthSettings.model_validate({"type": "api_key", "api_keys": [{"id": "a", "sha256": "ab" * 32}]})


def test_an_open_server_says_nothing() -> None:
    assert card_security(None) == {}


def test_a_bearer_scheme_is_flat_and_wrapped_side_by_side() -> None:
    assert card_security(bearer_settings()) == {
        "securitySchemes": {
            "bearer": {
                "httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"},
                "type": "http",
                "scheme": "Bearer",
                "bearerFormat": "JWT",
            }
        },
        "security": [{"bearer": []}],
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }


def test_an_api_key_scheme_is_flat_and_wrapped_side_by_side() -> None:
    assert card_security(API_KEYS) == {
        "securitySchemes": {
            "apiKey": {
                "apiKeySecurityScheme": {"location": "header", "name": "X-Api-Key"},
                "type": "apiKey",
                "in": "header",
                "name": "X-Api-Key",
            }
        },
        "security": [{"apiKey": []}],
        "securityRequirements": [{"schemes": {"apiKey": {"list": []}}}],
    }


@pytest.mark.parametrize("settings", [API_KEYS, bearer_settings()], ids=["api_key", "bearer"])
def test_one_dialect_can_be_had_alone(settings: AuthSettings) -> None:
    old = card_security(settings, v1_0=False)
    new = card_security(settings, v0_3=False)
    assert set(old) == {"securitySchemes", "security"}
    assert set(new) == {"securitySchemes", "securityRequirements"}
    [old_scheme], [new_scheme] = old["securitySchemes"].values(), new["securitySchemes"].values()
    assert "type" in old_scheme
    assert not any(name.endswith("SecurityScheme") for name in old_scheme)
    assert all(name.endswith("SecurityScheme") for name in new_scheme)
    assert card_security(settings, v0_3=False, v1_0=False) == {}


def test_a_card_that_is_changed_does_not_change_the_next() -> None:
    card_security(API_KEYS)["securitySchemes"]["apiKey"]["apiKeySecurityScheme"]["name"] = "X-Other"
    assert "X-Other" not in str(card_security(API_KEYS))
