"""What a client counts of its own calls: how long each operation took, what failed and of which kind, and what had to
be connected anew. Plain numbers, for whoever shows them; counting one call costs less than a microsecond."""

from __future__ import annotations

import copy
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio.retry import Retry
from redis.backoff import AbstractBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_KINDS: tuple[tuple[type[RedisError], str], ...] = (
    (OutOfMemoryError, "full"),
    (NoPermissionError, "denied"),
    (AuthenticationError, "denied"),
    (BusyLoadingError, "loading"),
    (ReadOnlyError, "readonly"),
    (ClusterDownError, "cluster"),
    (AskError, "cluster"),
    (MaxConnectionsError, "pool"),
    (TimeoutError, "timeout"),
)
# Inside a script the code is not at the beginning, and the library can't make a class of it.
_CODES = {
    "OOM": "full",
    "NOPERM": "denied",
    "NOAUTH": "denied",
    "WRONGPASS": "denied",
    "LOADING": "loading",
    "READONLY": "readonly",
    "BUSY": "busy",
    "MISCONF": "disk",
    "NOREPLICAS": "replicas",
    "MASTERDOWN": "replicas",
    "CLUSTERDOWN": "cluster",
    "TRYAGAIN": "cluster",
    "MOVED": "cluster",
    "ASK": "cluster",
    "max number of clients": "clients",
    "No connection available": "pool",
}
_CODE = re.compile(rf"\b({'|'.join(_CODES)})\b")

KINDS = frozenset({*(kind for _, kind in _KINDS), *_CODES.values(), "connection", "reply"})
"""Every kind of fault there is; `reply` is an answer that no release of ours understands."""


def kind_of(error: RedisError) -> str:
    """One word for what went wrong."""
    for known, kind in _KINDS:
        if isinstance(error, known):
            return kind
    if code := _CODE.search(str(error)):
        return _CODES[code.group(1)]
    return "connection" if isinstance(error, ConnectionError) else "reply"


class Meter:
    """The numbers of one client. `rows` has, for each operation, counts by bucket (the last one for what is beyond all
    bounds) and then the sum of seconds."""

    def __init__(self) -> None:
        self.rows: dict[str, list[float]] = {}
        self.faults: Counter[str] = Counter()
        self.repeats = 0
        """Tries that the library repeated by itself on a connection made anew."""

    def took(self, operation: str, seconds: float) -> None:
        row = self.rows.get(operation)
        if row is None:
            row = self.rows[operation] = [0.0] * (len(BOUNDS) + 2)
        row[bisect_left(BOUNDS, seconds)] += 1
        row[-1] += seconds

    def failed(self, error: RedisError) -> None:
        self.faults[kind_of(error)] += 1

    def retry(self, backoff: AbstractBackoff, retries: int) -> Retry:
        """A retry policy of the library that counts what it repeats."""
        return _Counted(backoff, retries, self)


class _Counted(Retry):
    def __init__(self, backoff: AbstractBackoff, retries: int, meter: Meter) -> None:
        super().__init__(backoff, retries)
        self._meter = meter

    def __deepcopy__(self, memo: dict[int, Any]) -> _Counted:
        # Each connection has a copy, and all count for the same client.
        made = _Counted(copy.deepcopy(self._backoff, memo), self._retries, self._meter)
        made._supported_errors = self._supported_errors
        return made

    async def call_with_retry(
        self, do: Callable[[], Awaitable[Any]], fail: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        failures = 0

        async def failed(*error: Any) -> Any:
            nonlocal failures
            failures += 1
            if failures <= self._retries:
                self._meter.repeats += 1
            return await fail(*error)

        return await super().call_with_retry(do, failed, *args, **options)
