"""Where Redis is: one address, or the primary that Sentinels name.

    redis://  rediss://  unix://                                   one server
    redis+sentinel://[user:password@]host:port,host:port/service[/db]   whichever server the Sentinels call primary
    redis+cluster://[user:password@]host:port,host:port            a Cluster, by some of its nodes (stores/cluster.py)

Every new connection asks again, so that after a failover the next one goes to the new primary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import redis.asyncio as redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

SENTINEL_PORT = 26379
CLUSTER_PORT = 6379


class Topology(Protocol):
    """How connections find their server."""

    def pool(self, *, blocking: bool, **options: Any) -> redis.ConnectionPool:
        """A pool of the library's connections."""

    async def target(self) -> dict[str, Any]:
        """The server to connect to now: `path`, or `host` and `port`; with `username`, `password` and `db`."""

    @property
    def plain(self) -> bool:
        """Whether a connection is bare TCP or a Unix socket, without TLS."""

    async def close(self) -> None:
        """Lets go of what finding the server needed."""


def topology(url: str) -> Topology:
    """The topology that an address describes. Raises ValueError for one that it can't."""
    if urlsplit(url).scheme.endswith("+sentinel"):
        return Sentinels(url)
    return Single(url)


@dataclass(frozen=True, slots=True)
class Seeds:
    """A Cluster's address taken apart: the nodes to ask first, and what each of its nodes is reached with."""

    hosts: tuple[tuple[str, int], ...]
    scheme: str
    credentials: str
    query: str

    @classmethod
    def of(cls, url: str) -> Seeds:
        parts = urlsplit(url)
        if parts.path.strip("/") not in ("", "0"):
            raise ValueError("a Cluster has one database: redis+cluster://host:6379,host:6379")
        credentials, at, hosts = parts.netloc.rpartition("@")
        return cls(
            tuple(_address(text, CLUSTER_PORT) for text in hosts.split(",")),
            parts.scheme.removesuffix("+cluster"),
            f"{credentials}{at}",
            f"?{parts.query}" if parts.query else "",
        )

    def url(self, host: str, port: int) -> str:
        """The address of one node."""
        return f"{self.scheme}://{self.credentials}{f'[{host}]' if ':' in host else host}:{port}/0{self.query}"


def is_cluster(url: str) -> bool:
    return urlsplit(url).scheme.endswith("+cluster")


def check_address(url: str) -> None:
    """Raises ValueError for an address that describes no topology."""
    if is_cluster(url):
        Seeds.of(url)
    else:
        topology(url)


class Single:
    """One server."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._target: dict[str, Any] = dict(parse_url(url))

    @property
    def plain(self) -> bool:
        return self._url.startswith(("redis://", "unix://"))

    def pool(self, *, blocking: bool, **options: Any) -> redis.ConnectionPool:
        if self._url.startswith("unix"):
            options = {name: value for name, value in options.items() if not name.startswith("socket_keepalive")}
        kind = redis.BlockingConnectionPool if blocking else redis.ConnectionPool
        return kind.from_url(self._url, **options)

    async def target(self) -> dict[str, Any]:
        return self._target

    async def close(self) -> None:
        return None


class Sentinels:
    """A primary with replicas, watched by Sentinels."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.plain = parts.scheme == "redis+sentinel"
        self.service, self._access = _service(parts)
        if not self.plain:
            self._access["ssl"] = True
        hosts = [_address(text) for text in parts.netloc.rpartition("@")[2].split(",")]
        # The library leaves these classes untyped.
        make: Any = Sentinel
        # No retries: the next Sentinel is asked instead, and whoever needs the primary asks again.
        asking = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, "retry": Retry(NoBackoff(), 0)}
        self._sentinel: Sentinel = make(hosts, sentinel_kwargs={**asking, "decode_responses": True})

    def pool(self, *, blocking: bool, **options: Any) -> redis.ConnectionPool:
        # The library has no blocking pool for Sentinels: beyond its size a call fails at once, as an unavailable store.
        options.pop("timeout", None)
        make: Any = SentinelConnectionPool
        pool: redis.ConnectionPool = make(self.service, self._sentinel, **self._access, **options)
        return pool

    async def target(self) -> dict[str, Any]:
        try:
            host, port = await self._sentinel.discover_master(self.service)
        except MasterNotFoundError as error:
            raise ConnectionError(f"no Sentinel knows a primary for {self.service!r}: {error}") from error
        return {**self._access, "host": host, "port": port}

    async def close(self) -> None:
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()


def _service(parts: SplitResult) -> tuple[str, dict[str, Any]]:
    path = [unquote(part) for part in parts.path.split("/") if part]
    if not path or len(path) > 2 or (len(path) == 2 and not path[1].isdecimal()):
        raise ValueError("a Sentinel address ends with the service's name: redis+sentinel://host:26379/mymaster/0")
    access: dict[str, Any] = {"db": int(path[1])} if len(path) == 2 else {}
    credentials, at, _ = parts.netloc.rpartition("@")
    if at:
        user, _, password = credentials.partition(":")
        access["password"] = unquote(password)
        if user:
            access["username"] = unquote(user)
    return path[0], access


def _address(text: str, default: int = SENTINEL_PORT) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default)
    if not host or not port.isdecimal():
        raise ValueError(f"{text!r} is no host:port of a Sentinel or of a Cluster's node")
    return host.strip("[]"), int(port)
