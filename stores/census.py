"""Counting and measuring what a store holds, in small steps and never more of them than asked for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from stores.client import Client
from stores.keys import ContextRef, Keys, tag_of_task

STEP = 1000
# Keys measured per class: enough for a mean that does not jump, few enough to cost nothing.
SAMPLES = 200

_CLASSES = {
    "c": "context",
    "q": "queue",
    "x": "listing of a context",
    "m": "message",
    "o": "message",
    "t": "task",
    "e": "event log",
    "p": "callbacks",
    "b": "what a context owes",
}
OF_TASK = ("task", "event log", "message", "callbacks")
OF_CONTEXT = ("context", "queue", "what a context owes", "listing of a context")


@dataclass(slots=True)
class Census:
    """What a walk over the keys found. `complete`: it saw every key, not only as many as it might."""

    walked: int = 0
    complete: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    bytes_of: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    endless: list[str] = field(default_factory=list)

    def mean(self, kind: str) -> float:
        sizes = self.bytes_of.get(kind)
        return sum(sizes) / len(sizes) if sizes else 0.0


class Surveyor:
    """Walks the keys of one namespace."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._ours = re.compile(rf"^{re.escape(keys.namespace)}:\{{([^}}]*)\}}:(.*)$")

    def kind(self, key: str) -> str | None:
        """The class of a key; None when it is not of this namespace."""
        match = self._ours.match(key)
        if match is None:
            return None
        tag, rest = match.groups()
        if tag == "live":
            return "live contexts"
        if tag == "fleet":
            return f"fleet: {rest.partition(':')[0]}"
        if tag.startswith("i"):
            return "index of a caller"
        return _CLASSES.get(rest.partition(":")[0], "unknown")

    async def census(self, most: int, *, measure: bool = False) -> Census:
        """Counts keys by class and notes those without a TTL; `measure` weighs some of each class."""
        found = Census()
        async for keys in self._walk(f"{self._keys.namespace}:*", most, found):
            kinds = [self.kind(key) or "unknown" for key in keys]
            found.counts.update(kinds)
            ttls = await self._client.batch([["PTTL", key] for key in keys])
            found.endless += [key for key, ttl in zip(keys, ttls, strict=True) if int(ttl) == -1]
            if measure:
                await self._weigh(keys, kinds, found)
        return found

    async def _weigh(self, keys: list[str], kinds: list[str], found: Census) -> None:
        chosen: list[tuple[str, str]] = []
        for key, kind in zip(keys, kinds, strict=True):
            if len(found.bytes_of[kind]) + sum(other == kind for _, other in chosen) < SAMPLES:
                chosen.append((key, kind))
        if not chosen:
            return
        sizes = await self._client.batch([["MEMORY", "USAGE", key, "SAMPLES", 0] for key, _ in chosen])
        for (_, kind), size in zip(chosen, sizes, strict=True):
            if size is not None:
                found.bytes_of[kind].append(int(size))

    async def callers(self, most: int) -> list[str]:
        """Every caller with a listing of tasks."""
        callers: set[str] = set()
        async for keys in self._walk(f"{self._keys.namespace}:{{i*}}:tasks", most, Census()):
            callers.update(key.rpartition("{i")[2].partition("}")[0] for key in keys)
        return sorted(callers)

    async def find_task(self, task_id: str, most: int) -> list[str]:
        """The callers who have a task of this id: the id knows its slot, but not whose it is."""
        tag = tag_of_task(task_id)
        if tag is None:
            return []
        return await self._last_parts(self._keys.task(tag, "*", task_id), most, 2)

    async def find_context(self, context_id: str, most: int) -> list[ContextRef]:
        """The contexts of this id, one per caller who has one."""
        tag = ContextRef.of("", context_id).tag
        cids = await self._last_parts(f"{self._keys.prefix(tag)}c:*", most, 1)
        names = await self._client.batch(
            [["HMGET", self._keys.context(ContextRef(tag, "", cid)), "id", "caller"] for cid in cids]
        )
        return [
            ContextRef(tag, caller, cid)
            for cid, (name, caller) in zip(cids, names, strict=True)
            if name == context_id and caller
        ]

    async def _last_parts(self, pattern: str, most: int, place: int) -> list[str]:
        parts: set[str] = set()
        async for keys in self._walk(pattern, most, Census()):
            parts.update(key.split(":")[-place] for key in keys)
        return sorted(parts)

    async def _walk(self, pattern: str, most: int, found: Census) -> AsyncIterator[list[str]]:
        """Matching keys of so many keys of the whole store. A key may come twice, as SCAN says, so it is shown once."""
        for node in await self._client.nodes():
            cursor, seen = "0", set[str]()
            while True:
                if found.walked >= most:
                    found.complete = False
                    return
                cursor, keys = await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", STEP)
                found.walked += STEP
                new = [key for key in keys if key not in seen]
                seen.update(new)
                if new:
                    yield new
                if str(cursor) == "0":
                    break
