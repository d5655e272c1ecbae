"""A published key set: rotated, kept over an outage, and never fetched more often than allowed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm

from server.auth.bearer import BearerTokens
from server.auth.cache import VerifiedTokens
from server.auth.errors import KeysUnavailable, Unauthenticated
from server.auth.jwks import MAX_DOCUMENT_BYTES, Jwks, JwksTimes, parse_key_set
from server.auth.keys import Algorithm
from server.auth.settings import JwtSettings
from server.auth.verify import build_verifier
from tests.auth.support import (
    Keys,
    KeySetServer,
    PrivateKey,
    bearer,
    bearer_settings,
    jwk,
    public_file,
    token,
    wait_until,
)
from tests.push.handlers import serving


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def published(issuer: KeySetServer, keys: Keys, clock: Clock) -> AsyncIterator[Jwks]:
    issuer.publish(jwk(keys.rsa, "one"))
    jwks = Jwks(issuer.url, Algorithm.RS256, now=clock)
    yield jwks
    await jwks.aclose()


async def test_keys_are_fetched_once_and_kept(published: Jwks, issuer: KeySetServer, keys: Keys) -> None:
    for _ in range(3):
        [key] = await published.keys_for("one")
        assert key.material == keys.rsa.public_key()
    assert issuer.requests == 1


async def test_many_requests_share_one_fetch(published: Jwks, issuer: KeySetServer) -> None:
    issuer.release.clear()
    waiting = asyncio.gather(*(published.keys_for("one") for _ in range(50)))
    await wait_until(lambda: issuer.requests == 1)
    issuer.release.set()
    answers = await asyncio.wait_for(waiting, 5)
    assert [len(found) for found in answers] == [1] * 50
    assert issuer.requests == 1


async def test_a_request_that_goes_away_leaves_the_fetch_to_the_others(published: Jwks, issuer: KeySetServer) -> None:
    issuer.release.clear()
    first = asyncio.create_task(published.keys_for("one"))
    second = asyncio.create_task(published.keys_for("one"))
    await wait_until(lambda: issuer.requests == 1)
    first.cancel()
    issuer.release.set()
    assert len(await asyncio.wait_for(second, 5)) == 1
    assert issuer.requests == 1


async def test_a_new_kid_is_fetched_at_once(published: Jwks, issuer: KeySetServer, keys: Keys, clock: Clock) -> None:
    assert await published.keys_for("one")
    issuer.publish(jwk(keys.rsa, "one"), jwk(keys.rsa_other, "two"))
    clock.now += 11
    [key] = await published.keys_for("two")
    assert key.material == keys.rsa_other.public_key()
    assert issuer.requests == 2


async def test_invented_kids_cost_one_fetch_per_cooldown(published: Jwks, issuer: KeySetServer, clock: Clock) -> None:
    assert await published.keys_for("one")
    for n in range(100):
        assert await published.keys_for(f"invented-{n}") == ()
    assert issuer.requests == 1
    clock.now += 10.5
    for n in range(100):
        assert await published.keys_for(f"invented-{n}") == ()
    assert issuer.requests == 2


async def test_a_key_taken_out_of_the_set_stops_serving(
    published: Jwks, issuer: KeySetServer, keys: Keys, clock: Clock
) -> None:
    assert await published.keys_for("one")
    issuer.publish(jwk(keys.rsa_other, "two"))
    clock.now += 301
    assert await published.keys_for("one")
    await wait_until(lambda: issuer.requests == 2 and published._fetching is None)
    assert await published.keys_for("one") == ()


async def test_old_keys_serve_while_new_ones_are_fetched(published: Jwks, issuer: KeySetServer, clock: Clock) -> None:
    assert await published.keys_for("one")
    issuer.release.clear()
    clock.now += 301
    found = await asyncio.wait_for(published.keys_for("one"), 1)
    assert len(found) == 1
    await wait_until(lambda: issuer.requests == 2)
    assert await asyncio.wait_for(published.keys_for("one"), 1) == found
    assert issuer.requests == 2


async def test_an_issuer_that_is_down_does_not_take_us_down(
    published: Jwks, issuer: KeySetServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await published.keys_for("one")
    await issuer.stop()
    for _ in range(20):
        clock.now += 3600
        assert len(await asyncio.wait_for(published.keys_for("one"), 1)) == 1
        await wait_until(lambda: published._fetching is None)
    failures = [record for record in caplog.records if record.getMessage().startswith("a2a_server.auth.jwks_failed")]
    assert len(failures) == 20
    clock.now += 6 * 3600
    with pytest.raises(KeysUnavailable):
        await published.keys_for("one")


async def test_an_issuer_that_comes_back_is_believed_again(published: Jwks, issuer: KeySetServer, clock: Clock) -> None:
    await issuer.stop()
    with pytest.raises(KeysUnavailable) as caught:
        await published.keys_for("one")
    assert caught.value.retry_after_seconds == 10
    async with issuer:
        with pytest.raises(KeysUnavailable):
            await published.keys_for("one")
        clock.now += 10.5
        assert await published.keys_for("one")


async def test_a_slow_issuer_is_waited_for_no_longer_than_allowed(issuer: KeySetServer, clock: Clock) -> None:
    issuer.release.clear()
    jwks = Jwks(issuer.url, Algorithm.RS256, JwksTimes(fetch=0.1), clock)
    with pytest.raises(KeysUnavailable):
        await asyncio.wait_for(jwks.keys_for("one"), 2)
    await jwks.aclose()


async def test_closing_ends_a_fetch_under_way(published: Jwks, issuer: KeySetServer) -> None:
    issuer.release.clear()
    waiting = asyncio.create_task(published.keys_for("one"))
    await wait_until(lambda: issuer.requests == 1)
    await asyncio.wait_for(published.aclose(), 2)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 2)


@pytest.mark.parametrize(
    ("status", "document"),
    [
        ("500 Oops", None),
        ("404 Not Found", None),
        ("204 No Content", b""),
        ("200 OK", b""),
        ("200 OK", b"<html>"),
        ("200 OK", b"[]"),
        ("200 OK", b'{"keys": {}}'),
        ("200 OK", b'{"keys": []}'),
        ("200 OK", b'{"keys": [1, null, "x", []]}'),
        ("200 OK", b"[" * 100_000),
        ("200 OK", b"\xff\xfe\xfd"),
    ],
    ids=str,
)
async def test_a_bad_answer_leaves_the_old_keys_in_place(
    published: Jwks, issuer: KeySetServer, keys: Keys, clock: Clock, status: str, document: bytes | None
) -> None:
    assert await published.keys_for("one")
    # A set that would be believed, if the rest of the answer were right.
    issuer.publish(jwk(keys.rsa_other, "two"))
    issuer.status = status
    if document is not None:
        issuer.document = document
    clock.now += 11
    assert await published.keys_for("two") == ()
    assert issuer.requests == 2
    assert len(await published.keys_for("one")) == 1


async def test_a_set_larger_than_allowed_is_not_believed(
    published: Jwks, issuer: KeySetServer, keys: Keys, clock: Clock
) -> None:
    assert await published.keys_for("one")
    issuer.publish(jwk(keys.rsa_other, "two"))
    issuer.document += b" " * MAX_DOCUMENT_BYTES
    clock.now += 11
    assert await published.keys_for("two") == ()


async def test_a_redirect_of_the_issuer_is_not_followed(
    published: Jwks, issuer: KeySetServer, keys: Keys, clock: Clock
) -> None:
    assert await published.keys_for("one")
    async with KeySetServer() as elsewhere:
        elsewhere.publish(jwk(keys.rsa_other, "two"))
        issuer.status, issuer.extra = "302 Found", f"location: {elsewhere.url}\r\n"
        clock.now += 11
        assert await published.keys_for("two") == ()
        assert elsewhere.requests == 0


async def test_an_issuer_that_dribbles_is_given_up(clock: Clock) -> None:
    async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Every read is fast, only the whole is slow.
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(dribble) as port:
        jwks = Jwks(f"http://127.0.0.1:{port}/", Algorithm.RS256, JwksTimes(fetch=0.2), clock)
        with pytest.raises(KeysUnavailable):
            await asyncio.wait_for(jwks.keys_for("one"), 10)
        await jwks.aclose()


def test_a_private_key_in_a_public_set_is_passed_over(keys: Keys) -> None:
    leaked = RSAAlgorithm.to_jwk(keys.rsa_other, as_dict=True) | {"kid": "leaked"}
    leaked.pop("key_ops", None)
    assert parse(Algorithm.RS256, leaked, jwk(keys.rsa, "good")) == ["good"]


async def test_without_a_kid_only_a_single_key_can_be_meant(issuer: KeySetServer, keys: Keys, clock: Clock) -> None:
    issuer.publish(jwk(keys.rsa, "one"))
    jwks = Jwks(issuer.url, Algorithm.RS256, now=clock)
    assert len(await jwks.keys_for(None)) == 1
    issuer.publish(jwk(keys.rsa, "one"), jwk(keys.rsa_other, "two"))
    clock.now += 11
    assert await jwks.keys_for("two")
    assert await jwks.keys_for(None) == ()
    await jwks.aclose()


def parse(algorithm: Algorithm, *entries: Any) -> list[str | None]:
    return [key.kid for key in parse_key_set(json.dumps({"keys": entries}).encode(), algorithm)]


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        (Algorithm.RS256, "rsa"),
        (Algorithm.RS512, "rsa"),
        (Algorithm.PS256, "rsa"),
        (Algorithm.ES256, "p256"),
        (Algorithm.ES512, "p521"),
    ],
)
def test_each_asymmetric_algorithm_finds_its_key(keys: Keys, algorithm: Algorithm, kind: str) -> None:
    all_keys: list[PrivateKey] = [keys.rsa, keys.p256, keys.p521, keys.rsa_weak]
    names = ["rsa", "p256", "p521", "rsa_weak"]
    entries = [jwk(key, name) for key, name in zip(all_keys, names, strict=True)]
    assert parse(algorithm, *entries) == [kind]


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"alg": "none"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC"},
        {"kty": None},
        {"n": "!!"},
        {"n": 7},
        {"e": None},
        {"d": "AQAB"},
    ],
    ids=str,
)
def test_an_entry_that_is_not_for_us_is_passed_over(keys: Keys, change: dict[str, Any]) -> None:
    assert parse(Algorithm.RS256, jwk(keys.rsa, "odd") | change, jwk(keys.rsa, "good")) == ["good"]


def test_an_entry_that_says_what_it_is_for_is_taken(keys: Keys) -> None:
    entry = jwk(keys.rsa, "one", use="sig", alg="RS256", key_ops=["verify"])
    assert parse(Algorithm.RS256, entry) == ["one"]


def test_a_set_with_too_many_keys_is_refused(keys: Keys) -> None:
    with pytest.raises(ValueError, match="at most 64"):
        parse(Algorithm.RS256, *[jwk(keys.rsa, str(n)) for n in range(65)])


class TestTokens:
    """The key set behind the whole door."""

    async def test_tokens_follow_the_issuer_through_a_rotation(self, issuer: KeySetServer, keys: Keys) -> None:
        issuer.publish(jwk(keys.rsa, "one"))
        clock = Clock()
        settings = JwtSettings(jwks_url=issuer.url)
        tokens = BearerTokens(
            settings, published=Jwks(issuer.url, settings.algorithm, now=clock), cache=VerifiedTokens(size=0)
        )
        old, new = token(keys.rsa, "RS256", kid="one"), token(keys.rsa_other, "RS256", kid="two")
        assert await tokens.verify(bearer(old))
        issuer.publish(jwk(keys.rsa, "one"), jwk(keys.rsa_other, "two"))
        clock.now += 11
        assert await tokens.verify(bearer(new)) == await tokens.verify(bearer(old))
        issuer.publish(jwk(keys.rsa_other, "two"))
        clock.now += 11
        with pytest.raises(Unauthenticated):
            await tokens.verify(bearer(token(keys.rsa, "RS256", kid="three")))
        with pytest.raises(Unauthenticated) as caught:
            await tokens.verify(bearer(old))
        assert caught.value.reason == "unknown_kid"
        await tokens.aclose()

    async def test_a_token_with_the_kid_of_another_key_is_refused(self, issuer: KeySetServer, keys: Keys) -> None:
        issuer.publish(jwk(keys.rsa, "one"), jwk(keys.rsa_other, "two"))
        door = build_verifier(bearer_settings(jwt={"algorithm": "RS256", "secret": None, "jwks_url": issuer.url}))
        await door.start()
        assert issuer.requests == 1
        with pytest.raises(Unauthenticated) as caught:
            await door.verify(bearer(token(keys.rsa, "RS256", kid="two")))
        assert caught.value.reason == "signature"
        await door.aclose()

    async def test_a_start_while_the_issuer_is_down_succeeds_and_says_so(
        self, issuer: KeySetServer, keys: Keys, caplog: pytest.LogCaptureFixture
    ) -> None:
        await issuer.stop()
        door = build_verifier(bearer_settings(jwt={"algorithm": "RS256", "secret": None, "jwks_url": issuer.url}))
        with caplog.at_level(logging.WARNING):
            await door.start()
        assert "a2a_server.auth.jwks_failed" in caplog.text
        with pytest.raises(KeysUnavailable) as caught:
            await door.verify(bearer(token(keys.rsa, "RS256", kid="one")))
        assert caught.value.error == "invalid_token"
        await door.aclose()

    async def test_a_key_from_a_file_serves_while_the_issuer_is_down(
        self, issuer: KeySetServer, keys: Keys, tmp_path: Path
    ) -> None:
        await issuer.stop()
        path = public_file(tmp_path, keys.rsa)
        block = {"algorithm": "RS256", "secret": None, "public_key_path": path, "jwks_url": issuer.url}
        door = build_verifier(bearer_settings(jwt=block))
        assert await door.verify(bearer(token(keys.rsa, "RS256", kid="any")))
        await door.aclose()

    async def test_a_file_and_a_key_set_serve_together(self, issuer: KeySetServer, keys: Keys, tmp_path: Path) -> None:
        issuer.publish(jwk(keys.rsa_other, "published"))
        entries = [{"kid": "filed", "public_key_path": public_file(tmp_path, keys.rsa)}]
        block = {"algorithm": "RS256", "secret": None, "keys": entries, "jwks_url": issuer.url}
        door = build_verifier(bearer_settings(jwt=block))
        assert await door.verify(bearer(token(keys.rsa, "RS256", kid="filed")))
        assert issuer.requests == 0
        assert await door.verify(bearer(token(keys.rsa_other, "RS256", kid="published")))
        await door.aclose()

    async def test_a_refused_algorithm_never_reaches_the_issuer(self, issuer: KeySetServer) -> None:
        door = build_verifier(bearer_settings(jwt={"algorithm": "RS256", "secret": None, "jwks_url": issuer.url}))
        with pytest.raises(Unauthenticated):
            await door.verify(bearer(token(kid="one")))
        assert issuer.requests == 0
        await door.aclose()
