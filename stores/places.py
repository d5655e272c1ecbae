"""What a Cluster keeps in other slots than a context's own: its places under the limits, rosters, hints, listings.

Each is one script in one slot. What they write is a hint or a reservation; the truth is in the context's slot, which
orders every reservation's end (settle_apart) and knows what is still owed to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stores import scripts
from stores.client import Client
from stores.decode import word_of
from stores.errors import StoreCorrupt
from stores.keys import ContextRef, DeliveryRef, Keys, parse_context
from stores.records import Limits
from stores.scripts import Argument

_RESERVE = scripts.load("reserve_place")
_RELEASE = scripts.load("release_place")
_SWEEP = scripts.load("sweep_places")
_SETTLE = scripts.load("settle_apart")
_INDEX = scripts.load("index_tasks")
_MOVE = scripts.load("move_roster")
_LEAVE = scripts.load("leave_hints")

# A place is looked after this long after its reservation, a few at a time; a round's end is a pause of five.
SWEEP_AGE_MS = 10_000
SWEEP_PAUSE_MS = 1_000
SWEEP_SIZE = 64

_WORDS = {"live": "caller_contexts", "busy": "caller_running", "tasks": "caller_tasks"}


@dataclass(frozen=True, slots=True)
class Hold:
    """A reservation: its stamps in the fleet's set and the caller's, '' for none, or the limit that forbids it."""

    stamp: str = ""
    own: str = ""
    refuse: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """A context seen in its own slot. `free`: its places end with these stamps; `owed`: pairs of field and value."""

    word: str
    owed: tuple[tuple[str, str], ...]
    stamp: str
    own: str
    running: str
    owner: str
    waits: bool


class Places:
    """The operations of one namespace."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits
        self.limits_callers = bool(limits.caller_running or limits.caller_contexts or limits.caller_tasks)

    def _own_sets(self, caller: str) -> tuple[str, str]:
        index = self._keys.index(caller)
        return f"{index}:live", f"{index}:busy"

    async def reserve_place(self, context: ContextRef, *, limited: bool, floor: str = "0") -> Hold:
        """A place among the live contexts of the fleet."""
        limits = self._limits
        reply = await self._client.run_hot(
            _RESERVE,
            (self._keys.live,),
            {
                "ref": context.text,
                "task": "",
                "most": limits.max_contexts if limited else 0,
                "busy_most": 0,
                "most_tasks": 0,
                "context_ms": limits.context_ms,
                "task_ms": limits.task_ms,
                "floor": floor,
            },
        )
        match word_of(reply):
            case "reserved":
                return Hold(stamp=reply[1])
            case "full":
                return Hold(refuse="context_limit")
            case other:
                raise StoreCorrupt(f"reserve_place answered {other!r}")

    async def reserve_own(
        self, context: ContextRef, task_id: str, *, limited: bool, new: bool, floor: str = "0"
    ) -> Hold:
        """A place under the caller's own limits, where there are any; `new`: it will store one more task."""
        limits = self._limits
        reply = await self._client.run_hot(
            _RESERVE,
            (*self._own_sets(context.caller), self._keys.index(context.caller)),
            {
                "ref": context.cid,
                "task": task_id,
                "most": limits.caller_contexts if limited else 0,
                "busy_most": limits.caller_running if limited else 0,
                "most_tasks": limits.caller_tasks if limited and new else 0,
                "context_ms": limits.context_ms,
                "task_ms": limits.task_ms,
                "floor": floor,
            },
        )
        return Hold(own=reply[1]) if word_of(reply) == "reserved" else Hold(refuse=_WORDS[reply[1]])

    async def not_coming(self, caller: str, task_id: str) -> None:
        """A task that was reserved for will not be listed."""
        if self._limits.caller_tasks:
            await self._client.call("ZREM", f"{self._keys.index(caller)}:coming", task_id)

    async def settle_apart(
        self,
        context: ContextRef,
        done: Sequence[tuple[str, str]] = (),
        *,
        seen: str = "",
        own_seen: str = "",
    ) -> Settled:
        """Notes what was done of what the context owed, and asks how it stands."""
        reply = await self._client.run_hot(
            _SETTLE,
            (self._keys.context(context),),
            {
                "prefix": self._keys.prefix(context.tag),
                "cid": context.cid,
                "context_ms": self._limits.context_ms,
                "seen": seen,
                "own_seen": own_seen,
            },
            [text for pair in done for text in pair],
        )
        word, owed, stamp, own, running, owner, waits = reply
        return Settled(word, pairs(owed), stamp, own, running, owner, bool(waits))

    async def release_place(self, context: ContextRef, found: Settled) -> None:
        """Gives places back as the context's slot ordered it, or lets them lapse early where it is idle."""
        idle_ms = self._limits.idle_ms or self._limits.context_ms
        what = "all" if found.word == "free" else "idle"
        if found.stamp and (what == "all" or self._limits.idle_ms):
            args: dict[str, Argument] = {
                "ref": context.text,
                "stamp": found.stamp,
                "what": what,
                "lapse_ms": idle_ms,
            }
            await self._client.run_hot(_RELEASE, (self._keys.live,), args)
        if found.own:
            args = {"ref": context.cid, "stamp": found.own, "what": what, "lapse_ms": idle_ms}
            await self._client.run_hot(_RELEASE, self._own_sets(context.caller), args)

    async def own_stamp(self, context: ContextRef) -> str:
        """The greatest stamp under the caller's own limits, '' where there is none."""
        live, busy = self._own_sets(context.caller)
        found = await self._client.batch(
            [["ZSCORE", f"{live}:stamps", context.cid], ["ZSCORE", f"{busy}:stamps", context.cid]]
        )
        stamps = [int(float(stamp)) for stamp in found if stamp is not None]
        return str(max(stamps)) if stamps else ""

    async def sweep_places(self, *, age_ms: int = SWEEP_AGE_MS) -> list[tuple[ContextRef, str]]:
        """The next places for this worker to look after, with their stamps; none where another one does."""
        reply = await self._client.run(
            _SWEEP,
            (self._keys.live,),
            {
                "age_ms": age_ms,
                "pause_ms": SWEEP_PAUSE_MS,
                "size": SWEEP_SIZE,
                "context_ms": self._limits.context_ms,
            },
        )
        return [(parse_context(text), stamp) for text, stamp in pairs(reply[1])]

    async def index_tasks(self, caller: str, notes: Sequence[tuple[str, str]]) -> None:
        """Shows tasks in their caller's listing: (task, `<revision> <place> <former places>`)."""
        triples: list[Argument] = []
        for task_id, note in notes:
            rev, _, placed = note.partition(" ")
            triples += [task_id, rev, placed]
        args: dict[str, Argument] = {"context_ms": self._limits.context_ms, "task_ms": self._limits.task_ms}
        await self._client.run_hot(_INDEX, (self._keys.index(caller),), args, triples)

    async def move_roster(self, worker: str, *moves: tuple[str, str]) -> None:
        """Changes the worker's roster: (`+` or `-`, turn) and (`d` or `x`, delivery)."""
        keys = self._keys
        await self._client.run_hot(
            _MOVE,
            (keys.workers, keys.turns(worker), keys.deliveries(worker)),
            {"worker": worker, "context_ms": self._limits.context_ms},
            [text for move in moves for text in move],
        )

    async def unserve(self, worker: str, ref: DeliveryRef) -> None:
        """Takes a delivery off the worker's roster, unless it is the worker's."""
        owner = await self._client.call("HGET", self._keys.push(ref.tag, ref.caller, ref.task_id), "owner")
        if owner != worker:
            await self.move_roster(worker, ("x", ref.text))

    async def answer_hint(self, context: ContextRef) -> None:
        """Somebody looked after a context whose queue waited. First the hint goes, then it comes back where it is
        needed: so one that is left between is not lost."""
        await self.leave_hints(("R", context.text))
        if (await self.settle_apart(context)).waits:
            await self.leave_hints(("r", context.text))

    async def leave_hints(self, *hints: tuple[str, str]) -> None:
        """Leaves or takes away hints for any worker: (`u` or `U`, delivery) and (`r` or `R`, context)."""
        await self._client.run(
            _LEAVE,
            (self._keys.undelivered, self._keys.ready),
            {"context_ms": self._limits.context_ms},
            [text for hint in hints for text in hint],
        )


def pairs(flat: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(flat[::2], flat[1::2], strict=True))
