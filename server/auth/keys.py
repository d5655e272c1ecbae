"""Key material that verifies tokens: read from files and secrets, checked against the one algorithm in use."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from server.auth.errors import AuthSettingError

# A PEM file with a key or a certificate is a few KiB; anything larger is another file.
MAX_KEY_FILE_BYTES = 64 * 1024
# NIST SP 800-131A: shorter RSA keys are disallowed.
MIN_RSA_BITS = 2048


class Algorithm(StrEnum):
    """The signing algorithms a token may use; exactly one is configured."""

    HS256 = "HS256"
    HS512 = "HS512"
    RS256 = "RS256"
    RS512 = "RS512"
    ES256 = "ES256"
    ES512 = "ES512"
    PS256 = "PS256"

    @property
    def symmetric(self) -> bool:
        return self in MIN_SECRET_BYTES


# RFC 7518 section 3.2: a key of at least the hash's size must be used.
MIN_SECRET_BYTES = {Algorithm.HS256: 32, Algorithm.HS512: 64}
CURVES = {Algorithm.ES256: "secp256r1", Algorithm.ES512: "secp521r1"}

PublicKey = RSAPublicKey | EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """One key that may verify a token; without a `kid` it is tried for any token."""

    kid: str | None
    material: PublicKey | bytes = field(repr=False)


def secret_key(secret: str, algorithm: Algorithm, where: str = "secret") -> bytes:
    """Check a shared secret and return its bytes."""
    raw = secret.encode()
    needed = MIN_SECRET_BYTES[algorithm]
    if b"-----BEGIN " in raw:
        # A public key is known to everyone: as a shared secret it would let anyone sign.
        raise AuthSettingError(
            "jwt_key_mismatch",
            where,
            f"{algorithm} needs a shared secret, but this is a PEM key: set algorithm to the one your issuer signs "
            "with (for example RS256) and give the file as public_key_path.",
        )
    if len(raw) < needed:
        raise AuthSettingError(
            "jwt_secret_short",
            where,
            f"{algorithm} needs a secret of at least {needed} bytes, this one has {len(raw)}: check that the variable "
            f"is set, or make a new one with `openssl rand -base64 {needed * 3 // 2}`.",
        )
    return raw


def read_public_key(path: Path, algorithm: Algorithm, where: str = "public_key_path") -> PublicKey:
    """Read a PEM public key (or certificate) that fits the algorithm."""
    raw = _read(path, where)
    if b"PRIVATE KEY-----" in raw:
        raise AuthSettingError(
            "jwt_key_private",
            where,
            f"{path} holds a private key, which this server must not have: export the public part with "
            "`openssl pkey -in KEY -pubout` and point here to that file.",
        )
    key = _parse(raw, path, where)
    problem = mismatch(key, algorithm)
    if problem is not None:
        raise AuthSettingError(
            "jwt_key_mismatch",
            where,
            f"{path} does not fit {algorithm}: {problem}. Set algorithm to the one your issuer signs with, or give "
            "the key that belongs to it.",
        )
    assert isinstance(key, RSAPublicKey | EllipticCurvePublicKey)
    return key


def mismatch(key: object, algorithm: Algorithm) -> str | None:
    """Say why a key cannot serve an algorithm, or None when it can."""
    if algorithm in CURVES:
        if not isinstance(key, EllipticCurvePublicKey):
            return "it needs an elliptic curve key"
        wanted = CURVES[algorithm]
        return None if key.curve.name == wanted else f"it needs the curve {wanted}, the key has {key.curve.name}"
    if algorithm.symmetric:
        return "it needs a shared secret"
    if not isinstance(key, RSAPublicKey):
        return "it needs an RSA key"
    return None if key.key_size >= MIN_RSA_BITS else f"an RSA key needs {MIN_RSA_BITS} bits, this has {key.key_size}"


def _read(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_KEY_FILE_BYTES + 1)
    except FileNotFoundError:
        raise AuthSettingError(
            "jwt_key_missing", where, f"{path} does not exist: mount the key file there or correct the path."
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "the path is not valid"
        raise AuthSettingError(
            "jwt_key_unreadable",
            where,
            f"{path} cannot be read ({why}): give the server's user permission to read this file.",
        ) from error
    if len(raw) > MAX_KEY_FILE_BYTES:
        raise AuthSettingError(
            "jwt_key_not_pem", where, f"{path} is larger than any key file: point to a PEM public key."
        )
    return raw


def _parse(raw: bytes, path: Path, where: str) -> object:
    try:
        if b"-----BEGIN CERTIFICATE-----" in raw:
            return load_pem_x509_certificate(raw).public_key()
        return load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise AuthSettingError(
            "jwt_key_not_pem",
            where,
            f"{path} is not a PEM public key: it should begin with `-----BEGIN PUBLIC KEY-----`.",
        ) from error
