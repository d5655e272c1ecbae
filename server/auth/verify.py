"""The door: a request's headers in, its caller out, or a refusal that says how to come in."""

import logging
from typing import Protocol

from server.auth.api_key import HEADER, ApiKeys
from server.auth.bearer import BearerTokens
from server.auth.caller import ANONYMOUS, Caller
from server.auth.errors import Unauthenticated
from server.auth.headers import Headers
from server.auth.jwks import Jwks
from server.auth.settings import AuthSettings

logger = logging.getLogger(__name__)

REALM = "a2a"


class Verifier(Protocol):
    """Proves who is calling; one per worker, started and closed with it."""

    async def verify(self, headers: Headers) -> Caller:
        """Return the caller, or raise Unauthenticated; a KeysUnavailable among these is ours, not the caller's."""
        ...

    def challenge(self, refusal: Unauthenticated) -> str:
        """Return the value of the WWW-Authenticate header that goes with a refusal."""
        ...

    async def start(self) -> None:
        """Prepare; never fails because someone else is down."""
        ...

    async def aclose(self) -> None:
        """Let go of everything."""
        ...


def build_verifier(settings: AuthSettings | None) -> Verifier:
    """Build the door the settings ask for; without any, everyone is the one anonymous caller."""
    if settings is None:
        return _Open()
    if settings.type == "api_key":
        return _Guarded(ApiKeys(settings.api_keys), f'ApiKey realm="{REALM}", header="{HEADER}"')
    jwt = settings.jwt
    assert jwt is not None, "the settings refuse bearer without jwt"
    published = Jwks(jwt.jwks_url, jwt.algorithm) if jwt.jwks_url is not None else None
    return _Guarded(BearerTokens(jwt, settings.caller_claim, published), f'Bearer realm="{REALM}"')


def challenge(prefix: str, refusal: Unauthenticated) -> str:
    """Build a WWW-Authenticate value (RFC 6750 section 3); no error attribute when no credentials were sent."""
    if refusal.error is None:
        return prefix
    return f'{prefix}, error="{refusal.error}", error_description="{refusal.description}"'


class _Open:
    async def verify(self, headers: Headers) -> Caller:
        return ANONYMOUS

    def challenge(self, refusal: Unauthenticated) -> str:
        return challenge(f'Bearer realm="{REALM}"', refusal)

    async def start(self) -> None:
        return

    async def aclose(self) -> None:
        return


class _Guarded:
    def __init__(self, credentials: BearerTokens | ApiKeys, prefix: str) -> None:
        self._credentials = credentials
        self._prefix = prefix

    async def verify(self, headers: Headers) -> Caller:
        try:
            return await self._credentials.verify(headers)
        except Unauthenticated as refusal:
            # The reason is a word of ours: nothing a caller wrote gets into the log.
            logger.warning("a2a_server.http.auth_rejected reason=%s", refusal.reason)
            raise

    def challenge(self, refusal: Unauthenticated) -> str:
        return challenge(self._prefix, refusal)

    async def start(self) -> None:
        await self._credentials.start()

    async def aclose(self) -> None:
        await self._credentials.aclose()
