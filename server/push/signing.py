"""Signatures on callbacks, as the Standard Webhooks specification has them."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from server.push.errors import PushSettingError

PREFIX = "whsec_"
# The specification's bounds of a symmetric secret, in bytes.
MIN_BYTES, MAX_BYTES = 24, 64
# The one in use and the one it replaces.
MAX_KEYS = 2

# The signed text is `id.timestamp.body`: a dot in the id would let two texts read the same.
_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One shared secret of the receivers and us."""

    secret: bytes = field(repr=False)


def signing_key(text: str) -> SigningKey:
    """Read a key as receivers' libraries write it: `whsec_` and base64."""
    try:
        if not text.startswith(PREFIX):
            raise ValueError
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise PushSettingError(
            "push_signing_key",
            f"A signing key is `{PREFIX}` followed by base64: make one with "
            f"`echo {PREFIX}$(openssl rand -base64 32)` and give it by a variable.",
        ) from None
    if not MIN_BYTES <= len(secret) <= MAX_BYTES:
        raise PushSettingError(
            "push_signing_key",
            f"A signing key has {MIN_BYTES} to {MAX_BYTES} bytes, this one has {len(secret)}: make one with "
            f"`echo {PREFIX}$(openssl rand -base64 32)`.",
        )
    return SigningKey(secret)


def message_id(task_id: str, config_id: str, event_id: str) -> str:
    """Name one event for one callback: the same in every retry and on every worker, so receivers can drop repeats."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (task_id, config_id, event_id):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return f"msg_{digest.hexdigest()}"


class Signer:
    """Signs each callback with one key or, while they change, with two."""

    def __init__(self, keys: Sequence[SigningKey]) -> None:
        if not 1 <= len(keys) <= MAX_KEYS:
            raise PushSettingError(
                "push_signing_key", f"There are {len(keys)} signing keys: give one, or two while receivers change over."
            )
        self._keys = tuple(keys)

    def headers(self, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """Return the three headers; the timestamp, in Unix seconds, is that of this attempt."""
        if _ID.fullmatch(message_id) is None:
            raise ValueError("a message id has letters, digits, - and _ only")
        text = f"{message_id}.{timestamp}.".encode() + body
        signatures = (hmac.new(key.secret, text, hashlib.sha256).digest() for key in self._keys)
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(f"v1,{base64.b64encode(signature).decode()}" for signature in signatures),
        }
