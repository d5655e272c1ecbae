"""What operators see of a fleet, and the few things they may change in it; works with every server down.

Reads go straight to the keys, in batches, and are no snapshot: what they show was true a moment ago. Changes are named
operations of their own, or those of `TurnStore`, each atomic and fenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from stores import scripts
from stores.caretaker import Caretaker
from stores.client import Client
from stores.decode import word_of
from stores.errors import StoreCorrupt
from stores.keys import ContextRef, DeliveryRef, Keys, TurnRef, parse_context, tag_of_task
from stores.records import DeadLetter, Limits
from stores.scripts import Argument
from stores.sights import ContextSight, FleetCounts, TaskSight, TurnSight, WorkerSight

_OF_CONTEXT = ("id", "run", "run_owner", "run_fence", "run_mid", "started", "cancel", "open", "attempt")
_DRAIN = scripts.load("ask_drain")
_SETTLE = scripts.load("settle_context")
_DROP_LETTER = scripts.load("drop_letter")

BATCH = 500

Settled = Literal["live", "released", "moved", "repaired"]


class AdminStore:
    """The operator's side of one namespace."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits
        self._care = Caretaker(client, keys, limits) if client.apart else None

    async def now_ms(self) -> int:
        """The store's clock, the only one that stored times can be compared with."""
        seconds, micros = await self._client.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    # --- workers ---------------------------------------------------------------------------------------------

    async def workers(self) -> list[WorkerSight]:
        keys = self._keys
        known: list[str] = list(await self._client.call("ZRANGE", keys.workers, 0, -1))
        replies = await self._batched(
            [
                command
                for worker in known
                for command in (
                    ["HMGET", keys.beat(worker), "info", "count", "seen", "wish"],
                    ["SMEMBERS", keys.turns(worker)],
                    ["SCARD", keys.deliveries(worker)],
                    ["EXISTS", keys.tombstone(worker)],
                )
            ]
        )
        sights = []
        for place, worker in enumerate(known):
            (info, count, seen, wish), turns, deliveries, reaped = replies[place * 4 : place * 4 + 4]
            refs = tuple(TurnRef.parse(entry) for entry in sorted(turns))
            sights.append(
                WorkerSight(
                    worker, info or "", count or "", int(seen or 0), wish or "", refs, int(deliveries), bool(reaped)
                )
            )
        return sights

    async def ask_drain(self, worker: str) -> bool:
        """Asks the worker to finish its turns and end; False when it does not beat."""
        keys = self._keys
        reply = await self._client.run(
            _DRAIN,
            (keys.beat(worker), keys.tombstone(worker)),
            {"worker": worker, "signals": keys.worker_channel},
        )
        return word_of(reply) == "asked"

    # --- contexts --------------------------------------------------------------------------------------------

    async def live(self, most: int) -> list[ContextRef]:
        """Contexts that count as live, the next to lapse first."""
        return [parse_context(text) for text in await self._client.call("ZRANGE", self._keys.live, 0, most - 1)]

    async def count_live(self) -> int:
        return int(await self._client.call("ZCOUNT", self._keys.live, f"({await self.now_ms()}", "+inf"))

    async def counts(self) -> FleetCounts:
        """Two round trips, whatever the fleet's size."""
        keys = self._keys
        now = await self.now_ms()
        found = await self._client.batch(
            [
                ["ZCOUNT", keys.live, f"({now}", "+inf"],
                ["ZCARD", keys.workers],
                ["ZCARD", keys.letters],
                ["SCARD", keys.undelivered],
                ["SCARD", keys.ready],
            ]
        )
        return FleetCounts(*(int(count) for count in found))

    async def ready(self) -> list[ContextRef]:
        """Contexts whose queue waits for somebody."""
        return [parse_context(text) for text in sorted(await self._client.call("SMEMBERS", self._keys.ready))]

    async def contexts(self, refs: Sequence[ContextRef]) -> list[ContextSight]:
        """The contexts that are there, of those asked for."""
        keys = self._keys
        replies = await self._batched(
            [
                command
                for ref in refs
                for command in (
                    ["HMGET", keys.context(ref), *_OF_CONTEXT],
                    ["HSTRLEN", keys.context(ref), "session"],
                    ["LLEN", keys.queue(ref)],
                    ["ZSCORE", keys.live, ref.text],
                )
            ]
        )
        sights = []
        for place, ref in enumerate(refs):
            facts, session, queued, deadline = replies[place * 4 : place * 4 + 4]
            context_id, run, owner, fence, mid, started, cancel, open_tasks, attempt = facts
            if context_id is None:
                continue
            running = bool(run)
            sights.append(
                ContextSight(
                    ref=ref,
                    context_id=context_id,
                    running=run if running else "",
                    owner=owner if running else "",
                    fence=fence if running else "",
                    mid=mid if running else "",
                    started_ms=int(started or 0) if running else 0,
                    attempt=int(attempt or 1) if running else 0,
                    canceling=running and cancel == fence,
                    queued=int(queued),
                    open=len((open_tasks or "").split()),
                    session_bytes=int(session),
                    counted_until_ms=int(float(deadline or 0)),
                )
            )
        return sights

    async def queue(self, ref: ContextRef) -> list[str]:
        """The tasks that wait in a context, the next one first."""
        return [entry.partition(":")[2] for entry in await self._client.call("LRANGE", self._keys.queue(ref), 0, -1)]

    async def open_tasks(self, ref: ContextRef) -> list[str]:
        return sorted((await self._client.call("HGET", self._keys.context(ref), "open") or "").split())

    async def settle_context(self, sight: ContextSight) -> Settled:
        """Makes the fleet's hints about a context what its own keys say."""
        keys, ref = self._keys, sight.ref
        if self._care is not None:
            return await self._settle_apart(self._care, sight)
        reply = await self._client.run(
            _SETTLE,
            (
                keys.context(ref),
                keys.live,
                keys.index(ref.caller),
                keys.workers,
                keys.turns(sight.owner),
                keys.ready,
            ),
            {
                "prefix": keys.prefix(ref.tag),
                "caller": ref.caller,
                "cid": ref.cid,
                "ref": ref.text,
                "channel": keys.task_channel,
                "owner": sight.owner,
                "context_ms": self._limits.context_ms,
                "idle_ms": self._limits.idle_ms,
            },
        )
        match word_of(reply):
            case "live":
                return "repaired" if int(reply[1]) or int(reply[2]) else "live"
            case ("released" | "moved") as word:
                return word
            case other:
                raise StoreCorrupt(f"settle_context answered {other!r}")

    async def _settle_apart(self, care: Caretaker, sight: ContextSight) -> Settled:
        before = await care.turns_of(sight.owner) if sight.owner else set()
        ready = sight.ref in await self.ready()
        found = await care.repair(sight.ref)
        if found.word == "free":
            return "released"
        if found.owner != sight.owner:
            return "moved"
        lost = found.running and sight.ref not in before
        return "repaired" if lost or (found.waits and not ready) else "live"

    # --- turns -----------------------------------------------------------------------------------------------

    async def turns(self, workers: Sequence[WorkerSight]) -> list[TurnSight]:
        """What the workers run, the longest running first, and then the queues that nobody runs."""
        refs = {ref.context: None for worker in workers for ref in worker.turns}
        running = [sight for sight in await self.contexts(list(refs)) if sight.running]
        waiting = [sight for sight in await self.contexts(await self.ready()) if not sight.running and sight.queued]
        return [*await self.progress(sorted(running, key=lambda it: it.started_ms)), *_unowned(waiting)]

    async def progress(self, running: Sequence[ContextSight]) -> list[TurnSight]:
        """How far the running turns of these contexts are."""
        keys = self._keys
        commands: list[list[Argument]] = []
        for it in running:
            commands.append(["HMGET", keys.task(it.ref.tag, it.ref.caller, it.running), "state", "at"])
            commands.append(["XREVRANGE", keys.log(it.ref.tag, it.ref.caller, it.running), "+", "-", "COUNT", 1])
        replies = await self._batched(commands)
        sights = []
        for place, it in enumerate(running):
            (state, at), entries = replies[place * 2 : place * 2 + 2]
            latest = max(int(at or 0), _entry_ms(entries), it.started_ms)
            sights.append(TurnSight(it, it.owner, state or "gone", it.attempt, latest))
        return sights

    # --- tasks -----------------------------------------------------------------------------------------------

    async def task(self, caller: str, task_id: str) -> TaskSight | None:
        tag = tag_of_task(task_id)
        if tag is None:
            return None
        keys = self._keys
        key, push = keys.task(tag, caller, task_id), keys.push(tag, caller, task_id)
        facts, size, events, pushed, ttl = await self._client.batch(
            [
                ["HMGET", key, "ctx", "state", "phase", "at", "created", "last", "first", "end_at"],
                ["HSTRLEN", key, "doc"],
                ["XLEN", keys.log(tag, caller, task_id)],
                ["HMGET", push, "count", "letters"],
                ["PTTL", key],
            ]
        )
        context_id, state, phase, at, created, last, first, end_at = facts
        if phase is None:
            return None
        # As long as a log has no more than these two entries, there is no stream of them.
        count = 1 + bool(end_at) if first else int(events)
        callbacks, letters = (int(value or 0) for value in pushed)
        return TaskSight(
            caller, task_id, context_id, state, phase, int(at), int(created or 0), last, int(size), count,
            callbacks, letters, int(ttl),
        )  # fmt: skip

    # --- callbacks -------------------------------------------------------------------------------------------

    async def undelivered(self) -> list[DeliveryRef]:
        """Tasks with news for callbacks that nobody serves."""
        found = await self._client.call("SMEMBERS", self._keys.undelivered)
        return [DeliveryRef.parse(entry) for entry in sorted(found)]

    async def count_letters(self) -> int:
        return int(await self._client.call("ZCARD", self._keys.letters))

    async def drop_letter(self, letter: DeadLetter) -> bool:
        """Forgets a dead letter for good; False when it was gone."""
        ref = DeliveryRef(letter.caller, letter.task_id)
        push = self._keys.push(ref.tag, ref.caller, ref.task_id)
        reply = await self._client.run(
            _DROP_LETTER,
            (push,) if self._client.apart else (push, self._keys.letters),
            {"name": letter.name, "to": letter.event, "entry": ref.text},
        )
        if self._client.apart:
            await self._client.call("ZREM", self._keys.letters, f"{ref.text}:{letter.name}:{letter.event}")
        return word_of(reply) == "dropped"

    async def _batched(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """One round trip per so many commands, so that no answer is huge and nobody waits long behind it."""
        replies: list[Any] = []
        for start in range(0, len(commands), BATCH):
            replies += await self._client.batch(commands[start : start + BATCH])
        return replies


def _unowned(waiting: Sequence[ContextSight]) -> list[TurnSight]:
    return [TurnSight(sight, "", "submitted", 0, 0) for sight in waiting]


def _entry_ms(entries: Any) -> int:
    """The time of a log's last entry; the client library shows fields as a list or as a mapping."""
    if not entries:
        return 0
    fields = entries[0][1]
    pairs = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    return int(pairs.get("a", 0))
