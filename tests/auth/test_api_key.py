"""API keys: known by hash, compared in constant time, mapped to an agent."""

from hashlib import sha256
from typing import Any

import pytest

from server.auth import api_key
from server.auth.caller import ANONYMOUS, caller_key
from server.auth.errors import Unauthenticated
from server.auth.settings import AuthSettings
from server.auth.verify import Verifier, build_verifier
from tests.auth.support import bearer


def key_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.fixture
def door() -> Verifier:
    entries = [
        {"id": "alice", "name": "Alice's agent", "sha256": key_hash("alice-key")},
        {"id": "bob", "sha256": key_hash("bob-key").upper()},
        {"id": "alice", "name": "Alice's agent", "sha256": key_hash("alice-next-key")},
    ]
    return build_verifier(AuthSettings.model_validate({"type": "api_key", "api_keys": entries}))


async def refused(door: Verifier, headers: list[tuple[bytes, bytes]]) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        await door.verify(headers)
    return caught.value


async def test_a_key_names_its_agent(door: Verifier) -> None:
    alice = await door.verify([(b"x-api-key", b"alice-key")])
    assert (alice.subject, alice.display, alice.scheme) == ("alice", "Alice's agent", "api_key")
    assert alice.key == caller_key("api_key", "", "alice")
    bob = await door.verify([(b"X-Api-Key", b" bob-key ")])
    assert (bob.subject, bob.display) == ("bob", "bob")


async def test_both_keys_of_an_agent_are_the_same_caller(door: Verifier) -> None:
    assert await door.verify([(b"x-api-key", b"alice-next-key")]) == await door.verify([(b"x-api-key", b"alice-key")])


@pytest.mark.parametrize(
    "value",
    [b"alice", b"alice-key2", b"alice-ke", b"ALICE-KEY", key_hash("alice-key").encode(), b"\xff\xfe", b"alice-key\0"],
)
async def test_an_unknown_key_is_refused(door: Verifier, value: bytes) -> None:
    refusal = await refused(door, [(b"x-api-key", value)])
    assert refusal.reason == "unknown_key"
    assert door.challenge(refusal).startswith('ApiKey realm="a2a", header="X-Api-Key", error="invalid_token"')


@pytest.mark.parametrize("headers", [[], [(b"x-api-key", b"")], [(b"x-api-key", b"  ")], bearer("alice-key")])
async def test_no_key_gets_a_challenge_without_error(door: Verifier, headers: list[tuple[bytes, bytes]]) -> None:
    refusal = await refused(door, headers)
    assert refusal.reason == "missing"
    assert door.challenge(refusal) == 'ApiKey realm="a2a", header="X-Api-Key"'


async def test_two_keys_in_one_request_are_refused(door: Verifier) -> None:
    refusal = await refused(door, [(b"x-api-key", b"alice-key"), (b"x-api-key", b"bob-key")])
    assert (refusal.reason, refusal.error) == ("duplicate_header", "invalid_request")


async def test_a_huge_key_is_refused(door: Verifier) -> None:
    assert (await refused(door, [(b"x-api-key", b"x" * 8193)])).reason == "too_large"


async def test_every_key_is_compared_whether_or_not_one_matched(
    door: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bytes] = []

    def watch(known: bytes, given: bytes) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr(api_key, "compare_digest", watch)
    await door.verify([(b"x-api-key", b"alice-key")])
    assert len(compared) == 3


async def test_a_refusal_does_not_log_the_key(door: Verifier, caplog: pytest.LogCaptureFixture) -> None:
    await refused(door, [(b"x-api-key", b"s3cret-key")])
    [record] = caplog.records
    assert record.getMessage() == "a2a_server.http.auth_rejected reason=unknown_key"
    assert "s3cret-key" not in str(record.__dict__)


@pytest.mark.parametrize("headers", [[], bearer("anything"), [(b"x-api-key", b"anything")]])
async def test_without_auth_everyone_is_the_one_anonymous_caller(headers: Any) -> None:
    door = build_verifier(None)
    await door.start()
    assert await door.verify(headers) is ANONYMOUS
    assert door.challenge(Unauthenticated("missing", None, "")) == 'Bearer realm="a2a"'
    await door.aclose()


async def test_a_door_for_keys_starts_and_closes(door: Verifier) -> None:
    await door.start()
    await door.aclose()
