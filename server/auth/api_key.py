"""The API key of a caller: a long random text, known here only by its hash."""

from hashlib import sha256
from hmac import compare_digest

from server.auth.caller import Caller, caller
from server.auth.errors import Unauthenticated
from server.auth.headers import Headers, api_key
from server.auth.settings import ApiKeySettings

SCHEME = "api_key"
HEADER = "X-Api-Key"
_HEADER_BYTES = HEADER.lower().encode()


class ApiKeys:
    """Turns API keys into callers."""

    def __init__(self, settings: tuple[ApiKeySettings, ...]) -> None:
        self._callers = tuple(
            (bytes.fromhex(entry.sha256), caller(SCHEME, "", entry.id, entry.name)) for entry in settings
        )

    async def verify(self, headers: Headers) -> Caller:
        """Return the caller of the request's key."""
        digest = sha256(api_key(headers, _HEADER_BYTES)).digest()
        found: Caller | None = None
        for known, candidate in self._callers:
            # All are compared, each in constant time: how long it takes says nothing about the keys.
            if compare_digest(known, digest):
                found = candidate
        if found is None:
            raise Unauthenticated("unknown_key", "invalid_token", "the API key is not known")
        return found

    async def start(self) -> None:
        """Nothing to prepare."""

    async def aclose(self) -> None:
        """Nothing to let go."""
