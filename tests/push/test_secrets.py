"""Credentials at rest open with the right key, for the right task and config, and in no other way."""

import base64

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from server.push.errors import PushSettingError, SecretUnreadable
from server.push.secrets import SecretBox, sealing_key

OLD = sealing_key("00" * 32)
NEW = sealing_key(base64.b64encode(bytes(range(32))).decode())
BOX = SecretBox([NEW])
SECRET = b'{"credentials":"s3cret"}'


def reason(box: SecretBox, envelope: str, task: str = "task", config: str = "config") -> str:
    with pytest.raises(SecretUnreadable) as caught:
        box.open(envelope, task, config)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.reason


@given(st.binary(max_size=500), st.text(), st.text())
def test_what_is_sealed_can_be_opened(secret: bytes, task: str, config: str) -> None:
    for box in (BOX, SecretBox()):
        assert box.open(box.seal(secret, task, config), task, config) == secret


def test_an_envelope_names_its_key_and_hides_its_secret() -> None:
    envelope = BOX.seal(SECRET, "task", "config")
    version, key_id, text = envelope.split(".")
    assert (version, key_id) == ("nsk1", NEW.id)
    raw = base64.urlsafe_b64decode(text)
    assert len(raw) == 12 + len(SECRET) + 16
    assert b"s3cret" not in raw
    assert envelope.isascii()


def test_the_cipher_is_aes_256_gcm_over_task_and_config() -> None:
    raw = base64.urlsafe_b64decode(BOX.seal(SECRET, "task", "config").split(".")[2])
    parts = (b"nsk1", NEW.id.encode(), b"task", b"config")
    associated = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert AESGCM(NEW.key).decrypt(raw[:12], raw[12:], associated) == SECRET


def test_the_same_secret_never_looks_the_same() -> None:
    assert len({BOX.seal(SECRET, "task", "config") for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("task", "config"),
    [("other", "config"), ("task", "other"), ("config", "task"), ("taskc", "onfig"), ("", "taskconfig")],
)
def test_an_envelope_moved_to_another_task_or_config_does_not_open(task: str, config: str) -> None:
    assert reason(BOX, BOX.seal(SECRET, "task", "config"), task, config) == "tampered"


def test_every_changed_byte_is_noticed() -> None:
    version, key_id, text = BOX.seal(SECRET, "task", "config").split(".")
    raw = base64.urlsafe_b64decode(text)
    for index in range(len(raw)):
        changed = raw[:index] + bytes([raw[index] ^ 1]) + raw[index + 1 :]
        envelope = f"{version}.{key_id}.{base64.urlsafe_b64encode(changed).decode()}"
        assert reason(BOX, envelope) == "tampered"


@pytest.mark.parametrize(
    "envelope",
    [
        "",
        ".",
        "nsk1",
        "nsk1.",
        f"nsk1.{NEW.id}",
        f"nsk1.{NEW.id}.",
        "nsk2.a.AAAA",
        f"nsk1.{NEW.id}.!!",
        "plain.!!",
        "s3cret",
        "plain.A",
    ],
)
def test_text_that_is_no_envelope_is_refused(envelope: str) -> None:
    assert reason(BOX, envelope) == "malformed"


@pytest.mark.parametrize("size", [0, 1, 11, 12, 13, 27])
def test_an_envelope_too_short_for_its_tag_is_refused(size: int) -> None:
    envelope = f"nsk1.{NEW.id}.{base64.urlsafe_b64encode(b'x' * size).decode()}"
    assert reason(BOX, envelope) in ("tampered", "malformed")


class TestRotation:
    def test_the_old_key_still_opens_while_the_new_one_seals(self) -> None:
        old = SecretBox([OLD]).seal(SECRET, "task", "config")
        both = SecretBox([NEW, OLD])
        assert both.open(old, "task", "config") == SECRET
        assert both.outdated(old)
        new = both.seal(SECRET, "task", "config")
        assert BOX.open(new, "task", "config") == SECRET
        assert not both.outdated(new)

    def test_a_key_taken_away_is_named_by_its_id(self) -> None:
        old = SecretBox([OLD]).seal(SECRET, "task", "config")
        assert reason(BOX, old) == "unknown_key"
        with pytest.raises(SecretUnreadable, match=OLD.id):
            BOX.open(old, "task", "config")
        assert reason(SecretBox(), old) == "unknown_key"

    def test_an_envelope_relabelled_with_another_key_does_not_open(self) -> None:
        old = SecretBox([OLD]).seal(SECRET, "task", "config")
        assert reason(SecretBox([NEW, OLD]), old.replace(OLD.id, NEW.id)) == "tampered"

    def test_what_was_kept_readable_opens_after_a_key_is_set(self) -> None:
        plain = SecretBox().seal(SECRET, "task", "config")
        assert BOX.open(plain, "task", "config") == SECRET
        assert BOX.outdated(plain)
        assert not SecretBox().outdated(plain)

    def test_a_third_key_is_refused(self) -> None:
        with pytest.raises(PushSettingError):
            SecretBox([NEW, OLD, sealing_key("11" * 32)])


def test_a_box_says_whether_it_seals() -> None:
    assert BOX.sealing
    assert not SecretBox().sealing


@pytest.mark.parametrize(
    "text",
    [bytes(range(32)).hex(), f" {bytes(range(32)).hex().upper()}\n", base64.b64encode(bytes(range(32))).decode()],
)
def test_a_key_is_read_from_hex_or_base64(text: str) -> None:
    assert sealing_key(text) == NEW


@pytest.mark.parametrize("text", ["", "hunter2", "00" * 31, "00" * 33, base64.b64encode(b"x" * 16).decode(), "é" * 32])
def test_a_bad_key_stops_the_start_and_is_not_shown(text: str) -> None:
    with pytest.raises(PushSettingError) as caught:
        sealing_key(text)
    assert caught.value.code == "validation.a2a_server.push_encryption_key"
    assert not text or text not in str(caught.value)


def test_a_key_is_not_shown() -> None:
    assert repr(OLD) == f"SealingKey(id='{OLD.id}')"
