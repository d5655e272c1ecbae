"""Bearer tokens: the good ones are accepted, and every attack known to us is refused with its reason."""

import base64
import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from server.auth.bearer import BearerTokens
from server.auth.cache import VerifiedTokens
from server.auth.caller import Caller, caller_key
from server.auth.errors import Unauthenticated
from server.auth.headers import MAX_CREDENTIAL_BYTES, Headers
from server.auth.keys import Algorithm
from server.auth.settings import AuthSettings
from server.auth.verify import Verifier, build_verifier
from tests.auth.support import SECRET, Keys, bearer, bearer_settings, hand_made, public_file, public_pem, token


async def refused(door: Verifier, headers: Headers) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        await door.verify(headers)
    return caught.value


async def reason(door: Verifier, text: str) -> str:
    refusal = await refused(door, bearer(text))
    assert refusal.error == "invalid_token"
    return refusal.reason


@pytest.fixture
def door() -> Verifier:
    return build_verifier(bearer_settings())


@pytest.fixture
def rs_door(tmp_path: Path, keys: Keys) -> Verifier:
    path = public_file(tmp_path, keys.rsa)
    return build_verifier(bearer_settings(jwt={"algorithm": "RS256", "secret": None, "public_key_path": path}))


@pytest.mark.parametrize("algorithm", list(Algorithm))
async def test_each_documented_algorithm_lets_its_token_in(tmp_path: Path, keys: Keys, algorithm: Algorithm) -> None:
    material: dict[str, Any] = {"secret": SECRET}
    if not algorithm.symmetric:
        material = {"secret": None, "public_key_path": public_file(tmp_path, keys.signing(algorithm))}
    door = build_verifier(bearer_settings(jwt={"algorithm": algorithm} | material))
    found = await door.verify(bearer(token(keys.signing(algorithm), algorithm, iss="https://issuer.example")))
    assert found == Caller(caller_key("bearer", "https://issuer.example", "alice"), "bearer", "alice", "alice")


@pytest.mark.parametrize("used", list(Algorithm))
async def test_any_other_algorithm_is_refused(tmp_path: Path, keys: Keys, used: Algorithm) -> None:
    configured = Algorithm.RS256 if used is not Algorithm.RS256 else Algorithm.PS256
    path = public_file(tmp_path, keys.rsa)
    door = build_verifier(bearer_settings(jwt={"algorithm": configured, "secret": None, "public_key_path": path}))
    assert await reason(door, token(keys.signing(used), used)) == "algorithm"


@pytest.mark.parametrize(
    "name", ["none", "None", "NONE", "nOnE", "", "HS384", "hs256", "ＨＳ256", "HS256\0", None, 7, []]
)
@pytest.mark.parametrize("signature", [b"", b"x" * 32, SECRET], ids=["empty", "junk", "valid"])
async def test_alg_none_and_its_spellings_are_refused(door: Verifier, name: object, signature: bytes | str) -> None:
    assert await reason(door, hand_made({"alg": name, "typ": "JWT"}, {"sub": "alice"}, signature)) == "algorithm"


async def test_the_public_key_as_hmac_secret_does_not_sign(rs_door: Verifier, keys: Keys) -> None:
    pem = public_pem(keys.rsa).decode()
    for secret in (pem, pem.strip(), pem.replace("\n", "\r\n")):
        for name in ("HS256", "RS256"):
            forged = hand_made({"alg": name, "typ": "JWT"}, {"sub": "alice", "exp": time.time() + 60}, secret)
            assert await reason(rs_door, forged) == ("algorithm" if name == "HS256" else "signature")


async def test_the_key_inside_the_token_is_not_used(rs_door: Verifier, keys: Keys) -> None:
    own_key = jwt.algorithms.RSAAlgorithm.to_jwk(keys.rsa_other.public_key(), as_dict=True)
    for header in (
        {"jwk": own_key},
        {"jku": "http://127.0.0.1:9/keys"},
        {"x5u": "http://127.0.0.1:9/c"},
        {"x5c": ["AA"]},
    ):
        forged = jwt.encode({"sub": "alice"}, keys.rsa_other, algorithm="RS256", headers=header)
        assert await reason(rs_door, forged) == "signature"


async def test_a_changed_payload_breaks_the_signature(door: Verifier) -> None:
    head, _, signature = token().split(".")
    other = token(sub="root").split(".")[1]
    assert await reason(door, f"{head}.{other}.{signature}") == "signature"
    assert await reason(door, f"{head}.{other}.") == "signature"


async def test_an_unknown_critical_extension_is_refused(door: Verifier) -> None:
    assert await reason(door, hand_made({"alg": "HS256", "crit": ["exp"]}, {"sub": "alice"}, SECRET)) in (
        "malformed",
        "algorithm",
    )


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"exp": int(time.time()) - 31}, "expired"),
        ({"exp": 0}, "expired"),
        ({"exp": "soon"}, "malformed"),
        ({"exp": float("inf")}, "malformed"),
        ({"exp": float("nan")}, "malformed"),
        ({"exp": [1]}, "malformed"),
        ({"nbf": int(time.time()) + 3600}, "not_yet_valid"),
        ({"nbf": "later"}, "malformed"),
        ({"iat": int(time.time()) + 3600}, "not_yet_valid"),
        ({"sub": None}, "caller_claim"),
        ({"sub": ""}, "caller_claim"),
        ({"sub": " \t"}, "caller_claim"),
    ],
)
async def test_claims_that_do_not_hold_are_refused(door: Verifier, claims: dict[str, Any], expected: str) -> None:
    assert await reason(door, token(**claims)) == expected


@pytest.mark.parametrize("subject", [1, 1.5, True, ["alice"], {"id": "alice"}])
async def test_a_subject_that_is_no_text_is_refused(door: Verifier, subject: object) -> None:
    forged = hand_made({"alg": "HS256"}, {"sub": subject}, SECRET)
    assert await reason(door, forged) == "caller_claim"


@pytest.mark.parametrize("payload", [None, [], "alice", 1, True])
async def test_a_payload_that_is_no_object_is_refused(door: Verifier, payload: object) -> None:
    assert await reason(door, hand_made({"alg": "HS256"}, payload, SECRET)) == "malformed"


async def test_clocks_may_differ_by_the_leeway() -> None:
    door = build_verifier(bearer_settings(jwt={"leeway_seconds": 60}))
    assert await door.verify(bearer(token(exp=int(time.time()) - 45, nbf=int(time.time()) + 45)))
    strict = build_verifier(bearer_settings(jwt={"leeway_seconds": 0}))
    assert await reason(strict, token(exp=int(time.time()) - 2)) == "expired"


async def test_a_token_without_expiry_is_accepted_unless_one_is_required(door: Verifier) -> None:
    assert await door.verify(bearer(token(exp=None)))
    strict = build_verifier(bearer_settings(jwt={"require_expiry": True}))
    assert await reason(strict, token(exp=None)) == "claim_missing"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, "claim_missing"),
        ({"iss": "https://evil.example", "aud": "agent"}, "issuer"),
        ({"iss": "https://issuer.example/", "aud": "agent"}, "issuer"),
        ({"iss": "https://issuer.example"}, "claim_missing"),
        ({"iss": "https://issuer.example", "aud": "other"}, "audience"),
        ({"iss": "https://issuer.example", "aud": ["x", "agents"]}, "audience"),
        ({"iss": "https://issuer.example", "aud": {"agent": 1}}, "audience"),
    ],
)
async def test_issuer_and_audience_are_checked_when_set(claims: dict[str, Any], expected: str) -> None:
    door = build_verifier(bearer_settings(jwt={"issuer": "https://issuer.example", "audience": "agent"}))
    assert await reason(door, token(**claims)) == expected
    assert await door.verify(bearer(token(iss="https://issuer.example", aud=["x", "agent"])))


async def test_any_audience_is_accepted_when_none_is_set(door: Verifier) -> None:
    assert await door.verify(bearer(token(aud="someone-else")))


async def test_two_issuers_with_the_same_subject_are_two_callers(door: Verifier) -> None:
    one = await door.verify(bearer(token(iss="https://a.example")))
    other = await door.verify(bearer(token(iss="https://b.example")))
    assert one.key != other.key
    assert await reason(door, hand_made({"alg": "HS256"}, {"sub": "alice", "iss": 7}, SECRET)) == "caller_claim"


async def test_another_claim_can_name_the_caller() -> None:
    door = build_verifier(bearer_settings(caller_claim="client_id"))
    assert (await door.verify(bearer(token(client_id="bot-7")))).subject == "bot-7"
    assert await reason(door, token()) == "caller_claim"
    assert await reason(door, token(client_id=7)) == "caller_claim"


async def test_subjects_that_look_alike_are_different_callers(door: Verifier) -> None:
    subjects = ["alice", "Alice", "аlice", "ａlice", "alice\u200b", "alice\u0000", "e\u0301", "é"]
    assert len({(await door.verify(bearer(token(sub=subject)))).key for subject in subjects}) == len(subjects)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a.b",
        "a.b.c",
        "..",
        "...",
        "a.b.c.d.e",
        ".".join("YWJj" for _ in range(5)),
        "eyJ9.e30.",
        "-._~+/==",
        "W10.e30.AA",
    ],
)
async def test_text_that_is_no_token_is_refused(door: Verifier, text: str) -> None:
    assert await reason(door, text) in ("malformed", "algorithm")


async def test_a_deeply_nested_header_is_refused(door: Verifier) -> None:
    nested = base64.urlsafe_b64encode(b"[" * 4000).rstrip(b"=").decode()
    assert await reason(door, f"{nested}.e30.AA") == "malformed"


class TestSeveralKeys:
    @pytest.fixture
    def door(self, tmp_path: Path, keys: Keys) -> Verifier:
        entries = [
            {"kid": "old", "public_key_path": public_file(tmp_path, keys.rsa, "old.pem")},
            {"kid": "new", "public_key_path": public_file(tmp_path, keys.rsa_other, "new.pem")},
        ]
        return build_verifier(bearer_settings(jwt={"algorithm": "RS256", "secret": None, "keys": entries}))

    async def test_old_and_new_key_serve_at_once(self, door: Verifier, keys: Keys) -> None:
        one = await door.verify(bearer(token(keys.rsa, "RS256", kid="old")))
        other = await door.verify(bearer(token(keys.rsa_other, "RS256", kid="new")))
        assert one == other

    async def test_a_token_without_kid_is_tried_with_each(self, door: Verifier, keys: Keys) -> None:
        assert await door.verify(bearer(token(keys.rsa_other, "RS256")))

    async def test_an_expired_token_says_so_whichever_key_signed_it(self, door: Verifier, keys: Keys) -> None:
        assert await reason(door, token(keys.rsa, "RS256", exp=1)) == "expired"
        assert await reason(door, token(keys.rsa_other, "RS256", exp=1)) == "expired"

    async def test_the_kid_of_another_key_does_not_help(self, door: Verifier, keys: Keys) -> None:
        assert await reason(door, token(keys.rsa, "RS256", kid="new")) == "signature"

    @pytest.mark.parametrize(
        "kid", ["unknown", "OLD", "", "../../../../dev/null", "/dev/null", "old\0", "' OR 1=1 --", "ｏld", "x" * 4000]
    )
    async def test_a_kid_is_only_compared(self, door: Verifier, keys: Keys, kid: str) -> None:
        assert await reason(door, token(keys.rsa, "RS256", kid=kid)) == "unknown_kid"

    @pytest.mark.parametrize("kid", [1, ["old"], {"a": 1}, None])
    async def test_a_kid_that_is_no_text_is_refused(self, door: Verifier, kid: object) -> None:
        assert await reason(door, hand_made({"alg": "RS256", "kid": kid}, {"sub": "alice"}, b"x")) in (
            "malformed",
            "algorithm",
        )


async def test_a_single_key_without_kid_serves_tokens_that_name_one(rs_door: Verifier, keys: Keys) -> None:
    assert await rs_door.verify(bearer(token(keys.rsa, "RS256", kid="whatever the issuer calls it")))


class TestHeaders:
    async def test_no_credentials_get_a_challenge_without_error(self, door: Verifier) -> None:
        refusal = await refused(door, [(b"host", b"agent.example")])
        assert refusal.reason == "missing"
        assert door.challenge(refusal) == 'Bearer realm="a2a"'

    async def test_a_bad_token_is_an_invalid_token(self, door: Verifier) -> None:
        refusal = await refused(door, bearer(token(exp=1)))
        expected = 'Bearer realm="a2a", error="invalid_token", error_description="the token has expired"'
        assert door.challenge(refusal) == expected

    @pytest.mark.parametrize("value", [b"Basic YTpi", b"", b"Digest x", b"Bearerx y", b"Token abc", b"Bearer\tabc"])
    async def test_another_scheme_counts_as_no_credentials(self, door: Verifier, value: bytes) -> None:
        refusal = await refused(door, [(b"authorization", value)])
        assert refusal.error is None
        assert refusal.reason == "wrong_scheme"

    @pytest.mark.parametrize(
        "value",
        [
            b"Bearer",
            b"Bearer ",
            b"Bearer a b",
            b"Bearer a,Bearer b",
            b"Bearer a\r\nx: y",
            b"Bearer a\n",
            b"Bearer \xef\xbc\xa1",
            b"bearer a;b",
            b'Bearer "abc"',
            b"Bearer =",
            b"Bearer a=b",
            "Bearer é".encode("latin-1"),
        ],
    )
    async def test_a_header_outside_the_grammar_is_an_invalid_request(self, door: Verifier, value: bytes) -> None:
        refusal = await refused(door, [(b"authorization", value)])
        assert (refusal.reason, refusal.error) == ("malformed", "invalid_request")

    @pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
    async def test_the_scheme_may_be_written_in_any_case(self, door: Verifier, scheme: bytes) -> None:
        assert await door.verify([(b"Authorization", scheme + b"  " + token().encode() + b" ")])

    async def test_two_authorization_headers_are_refused_even_when_equal(self, door: Verifier) -> None:
        good = token()
        for other in (good, token(sub="eve"), "x"):
            refusal = await refused(door, bearer(good, (b"Authorization", b"Bearer " + other.encode())))
            assert (refusal.reason, refusal.error) == ("duplicate_header", "invalid_request")

    async def test_a_huge_token_is_refused_before_it_is_parsed(
        self, door: Verifier, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(jwt, "get_unverified_header", lambda *_: pytest.fail("parsed"))
        refusal = await refused(door, bearer(token(pad="x" * 20_000)))
        assert (refusal.reason, refusal.error) == ("too_large", "invalid_request")

    async def test_a_token_just_within_the_limit_is_accepted(self, door: Verifier) -> None:
        room = MAX_CREDENTIAL_BYTES - len(b"Bearer ") - len(token(pad=""))
        text = token(pad="x" * (room * 3 // 4 - 4))
        assert MAX_CREDENTIAL_BYTES - 32 < len(text) < MAX_CREDENTIAL_BYTES
        assert await door.verify(bearer(text))

    async def test_a_token_anywhere_else_is_not_looked_at(self, door: Verifier) -> None:
        text = token().encode()
        elsewhere = [
            (b"x-api-key", text),
            (b"cookie", b"access_token=" + text),
            (b"proxy-authorization", b"Bearer " + text),
            (b"x-forwarded-authorization", b"Bearer " + text),
            (b":path", b"/?access_token=" + text),
            (b"referer", b"https://agent.example/?access_token=" + text),
        ]
        assert (await refused(door, elsewhere)).reason == "missing"


class TestSecrecy:
    @pytest.mark.parametrize("claims", [{"exp": 1}, {"sub": ""}, {"nbf": 9_999_999_999}])
    async def test_a_refusal_carries_nothing_of_the_token(
        self, door: Verifier, caplog: pytest.LogCaptureFixture, claims: dict[str, Any]
    ) -> None:
        text = token(**claims, marker="m4rker")
        with caplog.at_level(logging.DEBUG):
            refusal = await refused(door, bearer(text))
        [record] = [entry for entry in caplog.records if entry.name.startswith("server.auth")]
        assert record.getMessage() == f"a2a_server.http.auth_rejected reason={refusal.reason}"
        shown = " ".join([str(record.__dict__), str(refusal), repr(refusal), str(vars(refusal))])
        for part in (*text.split("."), "m4rker"):
            assert part not in shown
        assert refusal.__cause__ is None
        assert refusal.__context__ is None

    async def test_broken_json_in_a_token_does_not_hang_on_the_refusal(self, door: Verifier) -> None:
        text = base64.urlsafe_b64encode(b'{"alg": "HS256", "leak": m4rker').rstrip(b"=").decode() + ".e30.AA"
        refusal = await refused(door, bearer(text))
        assert refusal.__context__ is None

    async def test_a_good_token_leaves_no_log_line(self, door: Verifier, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.DEBUG):
            await door.verify(bearer(token()))
        assert caplog.records == []


class TestVerdictsAreRemembered:
    async def test_a_token_is_verified_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        door = build_verifier(bearer_settings())
        headers = bearer(token())
        first = await door.verify(headers)
        monkeypatch.setattr(jwt, "decode", lambda *_, **__: pytest.fail("verified again"))
        assert await door.verify(headers) is first

    async def test_a_refused_token_is_not_remembered_as_good(self, door: Verifier) -> None:
        headers = bearer(token(SECRET[::-1]))
        for _ in range(2):
            assert (await refused(door, headers)).reason == "signature"

    async def test_a_remembered_token_expires_with_its_leeway(self) -> None:
        clock = [time.time()]
        settings = bearer_settings(jwt={"leeway_seconds": 5})
        assert settings.jwt is not None
        tokens = BearerTokens(settings.jwt, cache=VerifiedTokens(now=lambda: clock[0]))
        headers = bearer(token(exp=int(clock[0]) + 10))
        with pytest.MonkeyPatch.context() as patch:
            await tokens.verify(headers)
            patch.setattr(jwt, "decode", _expired)
            clock[0] += 13
            assert await tokens.verify(headers)
            clock[0] += 3
            with pytest.raises(Unauthenticated):
                await tokens.verify(headers)


def _expired(*_: object, **__: object) -> None:
    raise jwt.ExpiredSignatureError


def test_the_hand_made_tokens_of_these_tests_would_pass_if_they_were_right() -> None:
    # Guards the guards: a builder that makes unreadable tokens would let every attack test pass.
    made = hand_made({"alg": "HS256"}, {"sub": "alice"}, SECRET)
    assert jwt.decode(made, SECRET, algorithms=["HS256"]) == {"sub": "alice"}
    assert json.loads(base64.urlsafe_b64decode(made.split(".")[0] + "==")) == {"alg": "HS256"}


def test_auth_settings_need_no_network_to_be_built() -> None:
    settings = AuthSettings.model_validate({"type": "bearer", "jwt": {"jwks_url": "https://issuer.example/keys"}})
    assert build_verifier(settings)
