"""The bearer token of a caller: one signed JWT, verified with exactly the configured algorithm."""

from typing import Any, Protocol

import jwt
from jwt import exceptions as jwt_errors

from server.auth.cache import VerifiedTokens
from server.auth.caller import Caller, caller
from server.auth.errors import KeysUnavailable, Unauthenticated
from server.auth.headers import Headers, bearer_token
from server.auth.keys import VerifyKey
from server.auth.settings import JwtSettings

SCHEME = "bearer"

# The first match names the reason; the order is from special to general, as the library's classes inherit.
_REASONS: tuple[tuple[type[Exception], str, str], ...] = (
    (jwt_errors.ExpiredSignatureError, "expired", "the token has expired"),
    (jwt_errors.ImmatureSignatureError, "not_yet_valid", "the token is not valid yet"),
    (jwt_errors.InvalidIssuerError, "issuer", "the token is from another issuer"),
    (jwt_errors.InvalidAudienceError, "audience", "the token is for another audience"),
    (jwt_errors.MissingRequiredClaimError, "claim_missing", "the token lacks a required claim"),
    (jwt_errors.InvalidSubjectError, "caller_claim", "the token does not name a caller"),
    (jwt_errors.InvalidAlgorithmError, "algorithm", "the token is signed with another algorithm"),
    (jwt_errors.InvalidSignatureError, "signature", "the token's signature does not hold"),
)
_MALFORMED = ("malformed", "the token is not well formed")


class KeySource(Protocol):
    """Where keys come from while the server runs."""

    async def keys_for(self, kid: str | None) -> tuple[VerifyKey, ...]: ...

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...


class BearerTokens:
    """Turns tokens into callers."""

    def __init__(
        self,
        settings: JwtSettings,
        caller_claim: str = "sub",
        published: KeySource | None = None,
        cache: VerifiedTokens | None = None,
    ) -> None:
        self._algorithm = str(settings.algorithm)
        self._issuer = settings.issuer
        self._audience = settings.audience
        self._leeway = settings.leeway_seconds
        self._required = ["exp"] if settings.require_expiry else []
        self._keys = settings.verify_keys()
        self._claim = caller_claim
        self._published = published
        self._cache = cache or VerifiedTokens()

    async def verify(self, headers: Headers) -> Caller:
        """Return the caller of the request's token."""
        token = bearer_token(headers)
        known = self._cache.get(token)
        if known is not None:
            return known
        kid = self._read_kid(token)
        claims = self._first_verified(token, await self._candidates(kid))
        found = self._caller(claims)
        expires = int(claims["exp"]) + self._leeway if "exp" in claims else None
        self._cache.put(token, found, expires)
        return found

    async def start(self) -> None:
        """Fetch published keys ahead of the first request."""
        if self._published is not None:
            await self._published.start()

    async def aclose(self) -> None:
        """Let go of what fetches keys."""
        if self._published is not None:
            await self._published.aclose()

    def _read_kid(self, token: str) -> str | None:
        problem = _MALFORMED
        try:
            header = jwt.get_unverified_header(token)
        except (jwt_errors.PyJWTError, ValueError):
            header = {}
        else:
            # Looked at before any key is: a stranger's algorithm never meets our key material.
            problem = ("algorithm", "the token is signed with another algorithm")
        # Raised out here, so that no exception of the library, with parts of the token in it, hangs on ours.
        if header.get("alg") != self._algorithm:
            raise Unauthenticated(problem[0], "invalid_token", problem[1])
        kid = header.get("kid")
        return kid if isinstance(kid, str) else None

    async def _candidates(self, kid: str | None) -> tuple[VerifyKey, ...]:
        # A kid only ever selects among keys we have: it is compared, never opened, fetched or looked up by.
        exact = tuple(key for key in self._keys if key.kid == kid) if kid is not None else self._keys
        found = exact or tuple(key for key in self._keys if key.kid is None)
        if self._published is not None and not exact:
            try:
                found = (*found, *await self._published.keys_for(kid))
            except KeysUnavailable:
                # A key from a file goes on serving while the issuer cannot be reached.
                if not found:
                    raise
        if not found:
            raise Unauthenticated("unknown_kid", "invalid_token", "the token is signed with an unknown key")
        return found

    def _first_verified(self, token: str, keys: tuple[VerifyKey, ...]) -> dict[str, Any]:
        problem = _MALFORMED
        for key in keys:
            claims, problem = self._decode(token, key)
            if claims is not None:
                return claims
            if problem[0] != "signature":
                # The signature held (or nothing can be read at all): another key would not change the verdict.
                break
        raise Unauthenticated(problem[0], "invalid_token", problem[1])

    def _decode(self, token: str, key: VerifyKey) -> tuple[dict[str, Any] | None, tuple[str, str]]:
        try:
            claims = jwt.decode(
                token,
                key.material,
                algorithms=[self._algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={
                    # Without an audience of ours any is accepted, as documented.
                    "verify_aud": self._audience is not None,
                    # The caller claim is checked below, whichever it is.
                    "verify_sub": False,
                    "require": self._required,
                },
            )
        except (jwt_errors.PyJWTError, ValueError, TypeError, OverflowError) as error:
            for kind, reason, description in _REASONS:
                if isinstance(error, kind):
                    return None, (reason, description)
            return None, _MALFORMED
        return claims, _MALFORMED

    def _caller(self, claims: dict[str, Any]) -> Caller:
        subject = claims.get(self._claim)
        issuer = claims.get("iss", "")
        if not isinstance(subject, str) or not subject.strip() or not isinstance(issuer, str):
            raise Unauthenticated("caller_claim", "invalid_token", "the token does not name a caller")
        return caller(SCHEME, issuer, subject)
