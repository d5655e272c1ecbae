"""Settings of the `auth:` block: what is accepted, and the code and sentence of each refusal."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from server.auth.errors import AuthSettingError
from server.auth.keys import Algorithm
from server.auth.settings import SECRET_PATHS, AuthSettings, fetchable, must_be_interpolated
from tests.auth.support import SECRET, Keys, private_pem, public_file, public_pem
from tests.push.certificates import self_signed

HASH = "ab" * 32


def refusal(block: dict[str, Any]) -> tuple[str, tuple[int | str, ...], str]:
    with pytest.raises(ValidationError) as caught:
        AuthSettings.model_validate(block)
    [error] = caught.value.errors(include_url=False)
    return error["type"], error["loc"], error["msg"]


def code_of(block: dict[str, Any]) -> str:
    code, _, sentence = refusal(block)
    assert sentence.endswith(".")
    return code.removeprefix("validation.a2a_server.")


def bearer(**jwt: Any) -> dict[str, Any]:
    return {"type": "bearer", "jwt": jwt}


def test_the_documented_production_block_is_accepted(tmp_path: Path, keys: Keys) -> None:
    path = public_file(tmp_path, keys.rsa)
    settings = AuthSettings.model_validate(
        bearer(algorithm="RS256", public_key_path=str(path), issuer="https://auth.example.com", audience="agent")
    )
    assert settings.jwt is not None
    assert settings.jwt.public_key_path == path
    assert settings.caller_claim == "sub"
    assert settings.public_card is False


def test_the_default_algorithm_is_rs256(tmp_path: Path, keys: Keys) -> None:
    settings = AuthSettings.model_validate(bearer(public_key_path=public_file(tmp_path, keys.rsa)))
    assert settings.jwt is not None
    assert settings.jwt.algorithm is Algorithm.RS256


def test_a_certificate_serves_as_public_key(tmp_path: Path, keys: Keys) -> None:
    path = tmp_path / "cert.pem"
    path.write_bytes(self_signed("issuer.example", keys.rsa))
    settings = AuthSettings.model_validate(bearer(public_key_path=path))
    assert settings.jwt is not None
    [key] = settings.jwt.verify_keys()
    assert key.material == keys.rsa.public_key()


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ({"type": "basic"}, "auth_type"),
        ({"type": None}, "auth_type"),
        ({"type": "bearer"}, "jwt_missing"),
        ({"type": "api_key"}, "api_keys_missing"),
        (bearer(algorithm="none", secret=SECRET), "jwt_algorithm"),
        (bearer(algorithm="HS384", secret=SECRET), "jwt_algorithm"),
        (bearer(algorithm="hs256", secret=SECRET), "jwt_algorithm"),
        (bearer(algorithm="RS256"), "jwt_key_missing"),
        (bearer(algorithm="HS256"), "jwt_key_missing"),
        (bearer(algorithm="HS256", secret=""), "jwt_secret_short"),
        (bearer(algorithm="HS256", secret="x" * 31), "jwt_secret_short"),
        (bearer(algorithm="HS512", secret="x" * 63), "jwt_secret_short"),
        (bearer(algorithm="RS256", secret=SECRET), "jwt_key_mismatch"),
        (bearer(algorithm="HS256", public_key_path="/nowhere/key.pem"), "jwt_key_mismatch"),
        (bearer(algorithm="HS256", secret=SECRET, jwks_url="https://issuer.example/keys"), "jwt_key_mismatch"),
        (bearer(public_key_path="/nowhere/key.pem"), "jwt_key_missing"),
        (bearer(public_key_path="/nowhere/\0"), "jwt_key_unreadable"),
        (bearer(jwks_url="http://issuer.example/keys"), "jwks_url_insecure"),
        (bearer(jwks_url="http://127.0.0.1.example/keys"), "jwks_url_insecure"),
        (bearer(jwks_url="https://user:pw@issuer.example/keys"), "jwks_url_insecure"),
        (bearer(jwks_url="file:///etc/keys.json"), "jwks_url_insecure"),
        (bearer(jwks_url="https://"), "jwks_url_insecure"),
        (bearer(jwks_url="https://issuer.example:port/"), "jwks_url_insecure"),
        (bearer(jwks_url="https://issuer.example/\nkeys"), "jwks_url_insecure"),
        ({"type": "api_key", "api_keys": [{"id": "a", "sha256": "my-plain-key"}]}, "api_key_hash"),
        (
            {
                "type": "api_key",
                "api_keys": [{"id": "a", "sha256": "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"}],
            },
            "api_key_hash",
        ),
        (
            {"type": "api_key", "api_keys": [{"id": "a", "sha256": HASH}, {"id": "b", "sha256": HASH.upper()}]},
            "api_key_duplicate",
        ),
        (
            {
                "type": "api_key",
                "api_keys": [{"id": "a", "sha256": HASH}],
                "jwt": {"algorithm": "HS256", "secret": SECRET},
            },
            "auth_conflict",
        ),
        (bearer(algorithm="HS256", secret=SECRET) | {"api_keys": [{"id": "a", "sha256": HASH}]}, "auth_conflict"),
        (
            bearer(algorithm="HS256", keys=[{"kid": "a", "secret": SECRET}, {"kid": "a", "secret": SECRET[::-1]}]),
            "jwt_kid_duplicate",
        ),
        (bearer(algorithm="HS256", keys=[{"kid": "a"}]), "jwt_key_mismatch"),
    ],
)
def test_a_mistake_stops_the_start_with_its_code(block: dict[str, Any], code: str) -> None:
    assert code_of(block) == code


@pytest.mark.parametrize(
    "block",
    [
        {"type": "bearer", "jwt": {"algorithm": "HS256", "secret": SECRET}, "typo": 1},
        bearer(algorithm="HS256", secret=SECRET, typo=1),
        {"type": "api_key", "api_keys": [{"id": "a", "sha256": HASH, "key": "plain"}]},
        bearer(algorithm="HS256", secret=SECRET, leeway_seconds=-1),
        bearer(algorithm="HS256", secret=SECRET, leeway_seconds=3600),
        bearer(algorithm="HS256", secret=SECRET, issuer=""),
        bearer(algorithm="HS256", secret=SECRET, audience=""),
        bearer(algorithm="HS256", secret=SECRET) | {"caller_claim": ""},
        bearer(algorithm="HS256", keys=[{"kid": str(n), "secret": SECRET} for n in range(9)]),
        {"type": "api_key", "api_keys": [{"id": "", "sha256": HASH}]},
    ],
)
def test_unknown_members_and_values_out_of_range_are_refused(block: dict[str, Any]) -> None:
    refusal(block)


def test_a_refusal_names_the_place_it_is_about(tmp_path: Path, keys: Keys) -> None:
    good = public_file(tmp_path, keys.rsa)
    _, place, sentence = refusal(bearer(keys=[{"public_key_path": good}, {"public_key_path": "/nowhere/{0}.pem"}]))
    assert place == ("jwt", "keys", 1, "public_key_path")
    assert sentence.startswith("/nowhere/{0}.pem does not exist")


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        AuthSettings.model_validate(bearer(public_key_path="/nowhere/a.pem", jwks_url="http://issuer.example"))
    assert len(caught.value.errors()) == 2


def test_a_folder_in_place_of_a_key_file_is_unreadable(tmp_path: Path) -> None:
    assert code_of(bearer(public_key_path=tmp_path)) == "jwt_key_unreadable"


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
)
def test_a_file_that_is_no_pem_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    assert code_of(bearer(public_key_path=path)) == "jwt_key_not_pem"


def test_a_huge_key_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(b"x" * 200_000)
    assert code_of(bearer(public_key_path=path)) == "jwt_key_not_pem"


def test_a_private_key_is_refused_and_not_shown(tmp_path: Path, keys: Keys) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(private_pem(keys.rsa))
    code, _, sentence = refusal(bearer(public_key_path=path))
    assert code == "validation.a2a_server.jwt_key_private"
    assert "BEGIN" not in sentence


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("RS256", "p256"),
        ("RS512", "p521"),
        ("PS256", "p256"),
        ("ES256", "rsa"),
        ("ES256", "p521"),
        ("ES512", "p256"),
        ("RS256", "rsa_weak"),
        ("PS256", "rsa_weak"),
    ],
)
def test_a_key_that_does_not_fit_its_algorithm_is_refused(
    tmp_path: Path, keys: Keys, algorithm: str, kind: str
) -> None:
    path = public_file(tmp_path, getattr(keys, kind))
    assert code_of(bearer(algorithm=algorithm, public_key_path=path)) == "jwt_key_mismatch"


def test_a_public_key_cannot_be_the_shared_secret(keys: Keys) -> None:
    assert code_of(bearer(algorithm="HS256", secret=public_pem(keys.rsa).decode())) == "jwt_key_mismatch"


def test_no_secret_is_in_a_validation_error_or_a_repr(keys: Keys) -> None:
    secret = "s3cret-but-short"
    with pytest.raises(ValidationError) as caught:
        AuthSettings.model_validate(bearer(algorithm="HS256", secret=secret, typo=secret))
    assert secret not in str(caught.value)
    settings = AuthSettings.model_validate(bearer(algorithm="HS256", secret=SECRET))
    assert SECRET not in repr(settings)
    assert settings.jwt is not None
    assert SECRET not in repr(settings.jwt.verify_keys())


def test_one_agent_may_have_two_keys_while_they_change() -> None:
    settings = AuthSettings.model_validate(
        {"type": "api_key", "api_keys": [{"id": "a", "sha256": HASH}, {"id": "a", "sha256": "cd" * 32}]}
    )
    assert len(settings.api_keys) == 2


@pytest.mark.parametrize("raw", ["${JWT_SECRET}", " ${JWT_SECRET} ", "${_x9}"])
def test_an_interpolated_secret_passes(raw: str) -> None:
    must_be_interpolated(raw)


@pytest.mark.parametrize(
    "raw",
    [
        "hunter2",
        "",
        None,
        42,
        "$JWT_SECRET",
        "${}",
        "${9X}",
        "a${JWT_SECRET}",
        "${A}${B}",
        "${A:-plain}",
        "${A} b",
        ["${A}"],
    ],
)
def test_a_plaintext_secret_is_refused_without_repeating_it(raw: object) -> None:
    with pytest.raises(AuthSettingError) as caught:
        must_be_interpolated(raw, "auth.jwt.secret")
    assert caught.value.code == "validation.a2a_server.plaintext_secret"
    assert "hunter2" not in str(caught.value)


def test_every_secret_field_of_the_block_is_listed_as_one() -> None:
    assert set(SECRET_PATHS) == {("jwt", "secret"), ("jwt", "keys", "*", "secret")}


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "http://localhost:8080/keys", "http://127.0.0.1/k", "http://[::1]:80/k"]
)
def test_a_key_set_comes_over_tls_or_from_this_machine(url: str) -> None:
    assert fetchable(url)
