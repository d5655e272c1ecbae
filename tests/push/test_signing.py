"""Signatures are those of the Standard Webhooks specification; the vectors come from its own library."""

import base64
import hashlib
import hmac

import pytest

from server.push.errors import PushSettingError
from server.push.signing import Signer, SigningKey, message_id, signing_key

ID, TIME = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
OLD = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
NEW = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
BODY = '{"kind":"task","text":"grüße €"}'.encode()


def signatures(*keys: str, body: bytes = BODY) -> list[str]:
    return Signer([signing_key(key) for key in keys]).headers(ID, TIME, body)["webhook-signature"].split(" ")


# Made with the package `standardwebhooks` 1.1.0: Webhook(key).sign(ID, TIME, body).
@pytest.mark.parametrize(
    ("key", "body", "signature"),
    [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            b'{"test": 2432232314}',
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (OLD, BODY, "oUspiVsYgoc5UogZKExC7nsGUTMhWh+xkpcIa1OiDa8="),
        (NEW, BODY, "MikGOzMNfKCycfD607T08rTfJu3G0jBCePPIGdA1PB8="),
    ],
)
def test_a_signature_is_the_one_receivers_expect(key: str, body: bytes, signature: str) -> None:
    assert Signer([signing_key(key)]).headers(ID, TIME, body) == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1,{signature}",
    }


def test_the_signed_text_is_id_timestamp_and_body_with_dots_between() -> None:
    secret = base64.b64decode(OLD.removeprefix("whsec_"))
    expected = hmac.new(secret, f"{ID}.{TIME}.".encode() + b"\x00\xff", hashlib.sha256).digest()
    assert signatures(OLD, body=b"\x00\xff") == [f"v1,{base64.b64encode(expected).decode()}"]


def test_two_keys_give_two_signatures_in_their_order() -> None:
    assert signatures(NEW, OLD) == signatures(NEW) + signatures(OLD)


@pytest.mark.parametrize("count", [0, 3])
def test_there_are_one_or_two_keys(count: int) -> None:
    with pytest.raises(PushSettingError):
        Signer([signing_key(OLD)] * count)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        "WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
        "whsec_not base64!",
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "whpk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
    ],
)
def test_a_bad_key_stops_the_start_and_is_not_shown(text: str) -> None:
    with pytest.raises(PushSettingError) as caught:
        signing_key(text)
    assert caught.value.code == "validation.a2a_server.push_signing_key"
    assert not text.removeprefix("whsec_") or text.removeprefix("whsec_") not in str(caught.value)


@pytest.mark.parametrize("size", [24, 64])
def test_the_bounds_of_a_key_are_accepted(size: int) -> None:
    assert signing_key("whsec_" + base64.b64encode(b"x" * size).decode()) == SigningKey(b"x" * size)


def test_a_key_is_not_shown() -> None:
    assert repr(signing_key(OLD)) == "SigningKey()"


@pytest.mark.parametrize("bad", ["", "a.b", "a b", "a\nb", "é", "x" * 257])
def test_an_id_that_could_blur_the_signed_text_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="message id"):
        Signer([signing_key(OLD)]).headers(bad, TIME, BODY)


def test_a_message_keeps_its_id_and_shares_it_with_no_other() -> None:
    made = message_id("task", "config", "7-1")
    assert made == message_id("task", "config", "7-1") == "msg_c1efab665d9a4f6351ec70b12bdb4534"
    others = {
        message_id("task", "config", "7-2"),
        message_id("task", "config7", "-1"),
        message_id("taskc", "onfig", "7-1"),
    }
    assert len(others | {made}) == 4
    assert Signer([signing_key(OLD)]).headers(made, TIME, BODY)["webhook-id"] == made
