"""The caller: who sent a request, as one key that no other way of coming in can produce."""

from dataclasses import dataclass
from hashlib import blake2b

# 128 bits: the key is part of every stored key, so two callers must never share one.
KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated orchestrator; `key` scopes what it may see, the rest is for people."""

    key: str
    scheme: str
    subject: str
    display: str


def caller_key(scheme: str, issuer: str, claim: str) -> str:
    """Hash the three parts, each behind its length, so that no two triples read as the same bytes."""
    digest = blake2b(digest_size=KEY_BYTES)
    for part in (scheme, issuer, claim):
        # Byte-exact on purpose: folding case or Unicode forms would let one subject pose as another.
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.hexdigest()


def caller(scheme: str, issuer: str, subject: str, display: str | None = None) -> Caller:
    """Build a caller; its display name is made safe to print."""
    return Caller(caller_key(scheme, issuer, subject), scheme, subject, printable(display or subject))


def printable(text: str, limit: int = 120) -> str:
    """Replace what could forge a log line or a terminal sequence, and cut what is too long to read."""
    safe = "".join(char if char.isprintable() else "\ufffd" for char in text[: limit + 1])
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


ANONYMOUS = caller("anonymous", "", "", "anonymous")
