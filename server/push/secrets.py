"""Callback credentials at rest: sealed for one task and config, readable with the operator's key alone.

nsk1.<key id>.<base64url(nonce + ciphertext + tag)>    sealed with AES-256-GCM
plain.<base64url(text)>                                stored while no key was set
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from server.push.errors import PushSettingError, SecretUnreadable

SEALED = "nsk1"
PLAIN = "plain"
KEY_BYTES = 32
# Random nonces of 96 bits are safe for 2**32 seals under one key (NIST SP 800-38D), far beyond a key's life here.
NONCE_BYTES = 12
# The one that seals, and the one that still opens what it sealed before.
MAX_KEYS = 2

_HEX = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class SealingKey:
    """An AES-256 key and the id by which an envelope names it."""

    id: str
    key: bytes = field(repr=False)


def sealing_key(text: str) -> SealingKey:
    """Read a key of 32 bytes, written as 64 hex digits or as base64."""
    raw = b""
    stripped = text.strip()
    if _HEX.fullmatch(stripped):
        raw = bytes.fromhex(stripped)
    else:
        try:
            raw = base64.b64decode(stripped, validate=True)
        except (ValueError, binascii.Error):
            raw = b""
    if len(raw) != KEY_BYTES:
        raise PushSettingError(
            "push_encryption_key",
            "An encryption key is 32 bytes in base64 or hex: make one with `openssl rand -base64 32` and give it by a "
            "variable.",
        )
    # Derived, so that no second setting can name the wrong key; the hash tells nothing of the key.
    return SealingKey(hashlib.blake2b(raw, digest_size=6, person=b"nonstick-key-id").hexdigest(), raw)


class SecretBox:
    """Seals and opens secrets; the first key seals, every key opens. Without a key, secrets are kept readable."""

    def __init__(self, keys: Sequence[SealingKey] = ()) -> None:
        if len(keys) > MAX_KEYS:
            raise PushSettingError(
                "push_encryption_key", f"There are {len(keys)} encryption keys: give one, or two while they change."
            )
        self._keys = {key.id: AESGCM(key.key) for key in keys}
        self._current = keys[0].id if keys else None

    @property
    def sealing(self) -> bool:
        """Whether secrets are encrypted; start-up warns when they are not."""
        return self._current is not None

    def seal(self, secret: bytes, task_id: str, config_id: str) -> str:
        """Return the envelope of a secret; it opens for the same task and config only."""
        if self._current is None:
            return f"{PLAIN}.{_encode(secret)}"
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._keys[self._current].encrypt(nonce, secret, _associated(self._current, task_id, config_id))
        return f"{SEALED}.{self._current}.{_encode(nonce + sealed)}"

    def open(self, envelope: str, task_id: str, config_id: str) -> bytes:
        """Return the secret of an envelope."""
        kind, _, rest = envelope.partition(".")
        if kind == PLAIN:
            # Stored before a key was set; such envelopes live no longer than their task.
            return _decode(rest)
        key_id, _, text = rest.partition(".")
        if kind != SEALED or not text:
            raise SecretUnreadable("malformed", "the stored credentials are not an envelope of ours")
        cipher = self._keys.get(key_id)
        if cipher is None:
            raise SecretUnreadable("unknown_key", f"the stored credentials need the encryption key with id {key_id!r}")
        raw = _decode(text)
        try:
            return cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _associated(key_id, task_id, config_id))
        except (InvalidTag, ValueError):
            raise SecretUnreadable("tampered", "the stored credentials were not sealed for this task") from None

    def outdated(self, envelope: str) -> bool:
        """Whether an envelope should be sealed anew with the current key."""
        return self.sealing and not envelope.startswith(f"{SEALED}.{self._current}.")


def _associated(key_id: str, task_id: str, config_id: str) -> bytes:
    parts = [part.encode("utf-8", "surrogatepass") for part in (SEALED, key_id, task_id, config_id)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise SecretUnreadable("malformed", "the stored credentials are not an envelope of ours") from None
