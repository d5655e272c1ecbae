"""Builders of keys, tokens, headers and settings, and a key set server that can be late, wrong or down."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from server.auth.settings import AuthSettings
from tests.push.handlers import Handlers

SECRET = "0123456789abcdef" * 4
PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey


@dataclass(frozen=True)
class Keys:
    """One private key of each kind, made once for all tests."""

    rsa: RSAPrivateKey
    rsa_other: RSAPrivateKey
    rsa_weak: RSAPrivateKey
    p256: EllipticCurvePrivateKey
    p521: EllipticCurvePrivateKey

    def signing(self, algorithm: str) -> Any:
        if algorithm.startswith("HS"):
            return SECRET
        return {"ES256": self.p256, "ES512": self.p521}.get(algorithm, self.rsa)


def make_keys() -> Keys:
    return Keys(
        rsa=rsa.generate_private_key(65537, 2048),
        rsa_other=rsa.generate_private_key(65537, 2048),
        rsa_weak=rsa.generate_private_key(65537, 1024),
        p256=ec.generate_private_key(ec.SECP256R1()),
        p521=ec.generate_private_key(ec.SECP521R1()),
    )


def public_pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_file(folder: Path, key: PrivateKey, name: str = "key.pem") -> Path:
    path = folder / name
    path.write_bytes(public_pem(key))
    return path


def bearer_settings(**changes: Any) -> AuthSettings:
    jwt_block: dict[str, Any] = {"algorithm": "HS256", "secret": SECRET} | changes.pop("jwt", {})
    block = {key: value for key, value in jwt_block.items() if value is not None}
    return AuthSettings.model_validate({"type": "bearer", "jwt": block} | changes)


def token(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **claims: Any) -> str:
    payload = {"sub": "alice", "exp": int(time.time()) + 600} | claims
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm=algorithm, headers={"kid": kid} if kid is not None else None)


def hand_made(header: dict[str, Any], payload: Any, signature: bytes | str = b"") -> str:
    """Put together a token no library would make; a text signature is used as HMAC-SHA256 key."""
    signing_input = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(payload).encode())}"
    if isinstance(signature, str):
        signature = hmac.new(signature.encode(), signing_input.encode(), hashlib.sha256).digest()
    return f"{signing_input}.{_b64(signature)}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def bearer(value: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"agent.example"), (b"authorization", b"Bearer " + value.encode()), *more]


def jwk(key: PrivateKey, kid: str | None, **members: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        entry = RSAAlgorithm.to_jwk(public, as_dict=True)
    else:
        entry = ECAlgorithm.to_jwk(public, as_dict=True)
    entry.pop("key_ops", None)
    return entry | ({"kid": kid} if kid is not None else {}) | members


@dataclass
class KeySetServer:
    """Publishes a key set on loopback and counts how often it was asked."""

    document: bytes = b'{"keys": []}'
    status: str = "200 OK"
    extra: str = ""
    requests: int = 0
    port: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    _server: asyncio.Server | None = None
    _handlers: Handlers | None = None

    def publish(self, *entries: dict[str, Any]) -> None:
        self.document = json.dumps({"keys": list(entries)}).encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    async def __aenter__(self) -> Self:
        self.release.set()
        self._handlers = Handlers(self._answer)
        self._server = await asyncio.start_server(self._handlers, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Go down: connections are refused from now on."""
        self.release.set()
        if self._server is not None and self._handlers is not None:
            self._server.close()
            await self._handlers.finished()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        await self.release.wait()
        head = f"HTTP/1.1 {self.status}\r\ncontent-length: {len(self.document)}\r\n{self.extra}"
        writer.write(head.encode() + b"connection: close\r\n\r\n" + self.document)
        await writer.drain()


async def wait_until(predicate: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not predicate():  # noqa: ASYNC110 - the condition is the other side's doing, there is no event to await
            await asyncio.sleep(0.005)
