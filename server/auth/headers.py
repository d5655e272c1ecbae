"""Credentials in a request's headers: found once, bounded, and well formed before anything looks into them."""

import re
from collections.abc import Iterable

from server.auth.errors import Unauthenticated

# Raw headers as ASGI gives them.
Headers = Iterable[tuple[bytes, bytes]]

# Tokens of real issuers stay under 4 KiB; the rest would only buy parsing work.
MAX_CREDENTIAL_BYTES = 8 * 1024

# RFC 6750 section 2.1, `b64token`; the one space is the grammar's, more are tolerated as HTTP does.
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9\-._~+/]+=*)")


def bearer_token(headers: Headers) -> str:
    """Return the token of the one Authorization header."""
    value = _single(headers, b"authorization")
    if value is None:
        raise Unauthenticated("missing", None, "a bearer token is required")
    match = _BEARER.fullmatch(value)
    if match is not None:
        return match[1].decode("ascii")
    if value.split(b" ", 1)[0].lower() == b"bearer":
        raise Unauthenticated("malformed", "invalid_request", "the Authorization header is not well formed")
    # RFC 6750 section 3.1: who used another scheme is told how to come in, without an error code.
    raise Unauthenticated("wrong_scheme", None, "a bearer token is required")


def api_key(headers: Headers, name: bytes) -> bytes:
    """Return the key of the one header of that name."""
    value = _single(headers, name)
    if not value:
        raise Unauthenticated("missing", None, "an API key is required")
    return value


def _single(headers: Headers, name: bytes) -> bytes | None:
    found: bytes | None = None
    for key, value in headers:
        if key.lower() != name:
            continue
        if found is not None:
            # A proxy in front may have checked the one and we would believe the other.
            raise Unauthenticated("duplicate_header", "invalid_request", "the credentials were sent more than once")
        found = value
    if found is None:
        return None
    if len(found) > MAX_CREDENTIAL_BYTES:
        raise Unauthenticated("too_large", "invalid_request", "the credentials are too large")
    return found.strip(b" \t")
