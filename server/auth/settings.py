"""The `auth:` block of the settings: who may come in, checked so that a mistake stops the start with a sentence."""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from server.auth.errors import AuthSettingError
from server.auth.keys import Algorithm, VerifyKey, read_public_key, secret_key

# Places in the `auth:` block whose raw text must be an interpolation; `*` stands for each list entry.
SECRET_PATHS: tuple[tuple[str, ...], ...] = (("jwt", "secret"), ("jwt", "keys", "*", "secret"))

# Each kid-less token is tried with each key, so their number bounds the work an attacker can ask for.
MAX_KEYS = 8
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})

_INTERPOLATION = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SHA256_HEX = re.compile(r"[0-9a-fA-F]{64}")
# The hash of the empty string: an unset variable piped through a hasher.
_EMPTY_SHA256 = sha256(b"").hexdigest()


def must_be_interpolated(raw_value: object, field: str = "secret") -> None:
    """Refuse a secret that stands in the settings file itself; takes the text before interpolation."""
    if not isinstance(raw_value, str) or _INTERPOLATION.fullmatch(raw_value.strip()) is None:
        raise AuthSettingError(
            "plaintext_secret",
            field,
            f"{field} must come from the environment: write `{field}: ${{YOUR_VARIABLE}}` (nothing before or after "
            "it, no default) and set the variable where the server runs.",
        )


def _custom(problem: AuthSettingError) -> PydanticCustomError:
    # The sentence goes in as context, since a path in it may hold braces.
    return PydanticCustomError(problem.code, "{sentence}", {"code": problem.code, "sentence": problem.sentence})


class _Strict(BaseModel):
    # Hidden inputs: a validation error must not print the secret it is about.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def _problems(self) -> Iterator[AuthSettingError]:
        yield from ()

    @model_validator(mode="after")
    def _refuse_problems(self) -> Self:
        details = [
            InitErrorDetails(
                type=_custom(problem),
                loc=tuple(int(step) if step.isdigit() else step for step in problem.field.split(".")),
                input=None,
            )
            for problem in self._problems()
        ]
        if details:
            raise ValidationError.from_exception_data(type(self).__name__, details, hide_input=True)
        return self


class KeySettings(_Strict):
    """One of several keys, so that an issuer can change its key without a moment of refusals."""

    kid: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    public_key_path: Path | None = None
    secret: SecretStr | None = None


class JwtSettings(_Strict):
    """How a bearer token is verified."""

    algorithm: Algorithm = Algorithm.RS256
    public_key_path: Path | None = None
    secret: SecretStr | None = None
    keys: Annotated[tuple[KeySettings, ...], Field(max_length=MAX_KEYS)] = ()
    jwks_url: str | None = None
    issuer: Annotated[str, Field(min_length=1)] | None = None
    audience: Annotated[str, Field(min_length=1)] | None = None
    # Clocks of two machines differ by seconds at most; more would only lengthen the life of a leaked token.
    leeway_seconds: Annotated[float, Field(ge=0, le=300)] = 30
    # The documented contract accepts tokens without an expiry; those who issue none of these can refuse them.
    require_expiry: bool = False

    @field_validator("algorithm", mode="before")
    @classmethod
    def _known_algorithm(cls, value: object) -> object:
        if value not in list(Algorithm):
            known = ", ".join(Algorithm)
            raise _custom(AuthSettingError("jwt_algorithm", "algorithm", f"algorithm must be one of {known}."))
        return value

    def verify_keys(self) -> tuple[VerifyKey, ...]:
        """Load every configured key; raises AuthSettingError at the first that cannot serve."""
        return tuple(self._load(entry, where) for where, entry in self._entries())

    def _entries(self) -> Iterator[tuple[str, KeySettings]]:
        if self.public_key_path is not None or self.secret is not None:
            yield "", KeySettings(public_key_path=self.public_key_path, secret=self.secret)
        for index, entry in enumerate(self.keys):
            yield f"keys.{index}.", entry

    def _load(self, entry: KeySettings, where: str) -> VerifyKey:
        if self.algorithm.symmetric:
            if entry.public_key_path is not None or entry.secret is None:
                raise AuthSettingError(
                    "jwt_key_mismatch",
                    f"{where}secret",
                    f"{self.algorithm} is symmetric: give `secret` (by interpolation) and no public_key_path.",
                )
            secret = entry.secret.get_secret_value()
            return VerifyKey(entry.kid, secret_key(secret, self.algorithm, f"{where}secret"))
        if entry.secret is not None or entry.public_key_path is None:
            raise AuthSettingError(
                "jwt_key_mismatch",
                f"{where}public_key_path",
                f"{self.algorithm} is asymmetric: give `public_key_path` and no secret.",
            )
        return VerifyKey(entry.kid, read_public_key(entry.public_key_path, self.algorithm, f"{where}public_key_path"))

    def _problems(self) -> Iterator[AuthSettingError]:
        for where, entry in self._entries():
            try:
                self._load(entry, where)
            except AuthSettingError as problem:
                yield problem
        if self.jwks_url is not None:
            yield from self._jwks_problems(self.jwks_url)
        elif not list(self._entries()):
            needed = "secret" if self.algorithm.symmetric else "public_key_path"
            yield AuthSettingError(
                "jwt_key_missing",
                needed,
                f"{self.algorithm} has nothing to verify with: set auth.jwt.{needed}"
                + ("." if self.algorithm.symmetric else ", auth.jwt.keys or auth.jwt.jwks_url."),
            )
        kids = [entry.kid for entry in self.keys if entry.kid is not None]
        if len(kids) != len(set(kids)):
            yield AuthSettingError("jwt_kid_duplicate", "keys", "Two keys have the same kid: each kid names one key.")

    def _jwks_problems(self, url: str) -> Iterator[AuthSettingError]:
        if self.algorithm.symmetric:
            yield AuthSettingError(
                "jwt_key_mismatch",
                "jwks_url",
                f"A key set is public and {self.algorithm} needs a secret: set algorithm to the one your issuer "
                "signs with, or remove jwks_url.",
            )
        if not fetchable(url):
            yield AuthSettingError(
                "jwks_url_insecure",
                "jwks_url",
                "jwks_url must be an https:// address without credentials (http:// only for localhost): whoever "
                "changes the keys on the way could sign any token.",
            )


class ApiKeySettings(_Strict):
    """One API key, known by its hash, and the agent it stands for."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    name: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    sha256: str

    def _problems(self) -> Iterator[AuthSettingError]:
        if _SHA256_HEX.fullmatch(self.sha256) is None or self.sha256.lower() == _EMPTY_SHA256:
            yield AuthSettingError(
                "api_key_hash",
                "sha256",
                "sha256 must be the 64 hex digits of a key's hash, never the key: make a key with "
                "`openssl rand -hex 32` and its hash with `printf %s KEY | sha256sum`.",
            )


class AuthSettings(_Strict):
    """The whole `auth:` block."""

    type: Literal["bearer", "api_key"]
    jwt: JwtSettings | None = None
    caller_claim: Annotated[str, Field(min_length=1)] = "sub"
    public_card: bool = False
    # Two entries may share an id, so that an agent's key can be changed without a gap.
    api_keys: tuple[ApiKeySettings, ...] = ()

    @field_validator("type", mode="before")
    @classmethod
    def _known_type(cls, value: object) -> object:
        if value not in ("bearer", "api_key"):
            raise _custom(AuthSettingError("auth_type", "type", "auth.type must be bearer or api_key."))
        return value

    def _problems(self) -> Iterator[AuthSettingError]:
        if self.type == "bearer":
            if self.jwt is None:
                yield AuthSettingError("jwt_missing", "jwt", "auth.type is bearer: add the auth.jwt block.")
            if self.api_keys:
                yield AuthSettingError(
                    "auth_conflict", "api_keys", "auth.type is bearer: remove api_keys, or set auth.type to api_key."
                )
            return
        if self.jwt is not None:
            yield AuthSettingError(
                "auth_conflict", "jwt", "auth.type is api_key: remove the jwt block, or set auth.type to bearer."
            )
        if not self.api_keys:
            yield AuthSettingError("api_keys_missing", "api_keys", "auth.type is api_key: list at least one key.")
        hashes = [entry.sha256.lower() for entry in self.api_keys]
        if len(hashes) != len(set(hashes)):
            yield AuthSettingError(
                "api_key_duplicate", "api_keys", "Two entries have the same sha256: give each agent a key of its own."
            )


def fetchable(url: str) -> bool:
    """Tell whether a key set may be fetched from here: over TLS, or from this very machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or any(ord(char) <= 32 or ord(char) > 126 for char in url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK_HOSTS)
