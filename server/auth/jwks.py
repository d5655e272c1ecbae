"""The issuer's published keys: fetched, kept, and renewed without a request waiting for it."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from server.auth.errors import KeysUnavailable
from server.auth.keys import CURVES, Algorithm, PublicKey, VerifyKey, mismatch
from server.auth.settings import fetchable

logger = logging.getLogger(__name__)

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_KEYS = 64


@dataclass(frozen=True, slots=True)
class JwksTimes:
    """How long keys are believed and how often they are asked for, in seconds."""

    # Keys older than this are renewed behind the request that noticed.
    fresh: float = 300.0
    # Keys of an unreachable issuer are believed this long: an outage of a day is survived, a lost revocation bounded.
    stale: float = 24 * 3600.0
    # Any stranger can invent a kid, so one costs at most one fetch in this time.
    cooldown: float = 10.0
    # Bound of one fetch, and so of the wait of a request that needs it.
    fetch: float = 5.0


class Jwks:
    """One key set; any number of requests share one fetch."""

    def __init__(
        self,
        url: str,
        algorithm: Algorithm,
        times: JwksTimes | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        assert fetchable(url), "the settings refuse such an address"
        self._url = url
        self._algorithm = algorithm
        self._times = times or JwksTimes()
        self._now = now
        self._keys: tuple[VerifyKey, ...] = ()
        self._fetched: float | None = None
        self._attempted: float | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._client: httpx.AsyncClient | None = None

    async def keys_for(self, kid: str | None) -> tuple[VerifyKey, ...]:
        """Return the keys a token with this kid may be verified with; empty when the issuer has none."""
        if not self._believable():
            await self._fetch_if_allowed()
            if not self._believable():
                raise KeysUnavailable(max(1, round(self._times.cooldown)))
        elif self._age() > self._times.fresh:
            # Not awaited: the request is served with the keys at hand.
            self._start_fetch_if_allowed()
        found = self._find(kid)
        if not found and kid is not None:
            await self._fetch_if_allowed()
            found = self._find(kid)
        return found

    async def start(self) -> None:
        """Fetch once before the first request; a failure is logged and tried again by the requests."""
        await self._fetch_if_allowed()

    async def aclose(self) -> None:
        """Stop a fetch under way and close the client."""
        task, self._fetching = self._fetching, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _find(self, kid: str | None) -> tuple[VerifyKey, ...]:
        if kid is None:
            # OpenID Connect Core 10.1: a kid may be left out only where it could name a single key.
            return self._keys if len(self._keys) == 1 else ()
        return tuple(key for key in self._keys if key.kid == kid)

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._now() - self._fetched

    def _believable(self) -> bool:
        return self._age() <= self._times.stale

    async def _fetch_if_allowed(self) -> None:
        task = self._start_fetch_if_allowed()
        if task is not None:
            # Shielded: a client that goes away must not take the fetch from the others.
            await asyncio.shield(task)

    def _start_fetch_if_allowed(self) -> asyncio.Task[None] | None:
        if self._fetching is not None:
            return self._fetching
        if self._attempted is not None and self._now() - self._attempted < self._times.cooldown:
            return None
        self._attempted = self._now()
        self._fetching = asyncio.create_task(self._fetch(), name="jwks-fetch")
        return self._fetching

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(self._times.fetch):
                keys = parse_key_set(await self._download(), self._algorithm)
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # A set without a usable key is taken for a fault of the issuer, like a page that is no set at all.
            logger.warning(
                "a2a_server.auth.jwks_failed reason=%s detail=%s keys_kept=%d",
                type(error).__name__,
                error,
                len(self._keys),
            )
        else:
            self._keys = keys
            self._fetched = self._now()
        finally:
            self._fetching = None

    async def _download(self) -> bytes:
        if self._client is None:
            # The address is the operator's, so a proxy or a CA from the environment is meant; a redirect is not.
            self._client = httpx.AsyncClient(follow_redirects=False, timeout=self._times.fetch)
        # Uncompressed, so that the size limit counts what really arrives in memory.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        body = bytearray()
        async with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code != 200:
                raise ValueError(f"the key set answered HTTP {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise ValueError(f"the key set is larger than {MAX_DOCUMENT_BYTES} bytes")
        return bytes(body)


def parse_key_set(document: bytes, algorithm: Algorithm) -> tuple[VerifyKey, ...]:
    """Read the keys of a set that serve the algorithm; the others are none of our business."""
    try:
        parsed = json.loads(document)
    except RecursionError:
        raise ValueError("the key set is nested too deeply") from None
    entries = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise ValueError(f"a key set is an object with a list of at most {MAX_KEYS} keys")
    keys: list[VerifyKey] = []
    for entry in entries:
        material = _public_key(entry, algorithm) if isinstance(entry, dict) else None
        if material is not None:
            kid = entry.get("kid")
            keys.append(VerifyKey(kid if isinstance(kid, str) else None, material))
    if not keys:
        raise ValueError(f"the key set has no key for {algorithm}")
    return tuple(keys)


def _public_key(entry: dict[str, Any], algorithm: Algorithm) -> PublicKey | None:
    # A symmetric key (`oct`) or a private part (`d`) in a public place is known to everyone.
    elliptic = algorithm in CURVES
    if entry.get("kty") != ("EC" if elliptic else "RSA") or "d" in entry:
        return None
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    operations = entry.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        key = ECAlgorithm.from_jwk(entry) if elliptic else RSAAlgorithm.from_jwk(entry)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    return None if mismatch(key, algorithm) is not None else key  # type: ignore[return-value]
