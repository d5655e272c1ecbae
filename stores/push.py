"""Callbacks of tasks: what is registered, who serves them, how far each one is, and what was given up on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stores import scripts
from stores.client import Client
from stores.decode import word_of
from stores.errors import StoreCorrupt
from stores.keys import DeliveryRef, Keys, tag_of_task
from stores.records import DeadLetter, Limits, PushBook, StoredConfig
from stores.scripts import Argument, Script

_READ = scripts.load("read_push_configs")
_DROP = scripts.load("drop_push_config")
_SETTLE = scripts.load("settle_push")
_BURY = scripts.load("bury_push")
_RELEASE = scripts.load("release_push")
_RETRY = scripts.load("retry_push")

# Letters of events on the way; that the caller must be able to find its task's end, they do not crowd out.
MOST_LETTERS = 100

Held = Literal["settled", "lost", "gone"]
Released = Literal["released", "busy", "lost"]


class PushStore:
    """Push configs and their delivery. The claim of a task's delivery is proven by worker and fence in every write."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        self._client = client
        self._keys = keys
        self._limits = limits
        load = scripts.load_apart if client.apart else scripts.load
        self._put = load("put_push_config")
        self._claim = load("claim_push")

    def _pair(self, ref: DeliveryRef) -> tuple[str, str]:
        return self._keys.push(ref.tag, ref.caller, ref.task_id), self._keys.task(ref.tag, ref.caller, ref.task_id)

    async def _run(self, script: Script, keys: Sequence[str], args: Mapping[str, Argument]) -> Any:
        return await self._client.run(script, keys, args)

    async def put_push_config(
        self, worker: str, ref: DeliveryRef, name: str, doc: str
    ) -> tuple[Literal["put", "too_many", "unknown"], str]:
        """Registers or replaces a callback. With it comes the delivery's fence, where this worker now has to serve."""
        if tag_of_task(ref.task_id) is None:
            return "unknown", ""
        reply = await self._run(
            self._put,
            (*self._pair(ref), self._keys.deliveries(worker), self._keys.workers),
            {
                "worker": worker,
                "entry": ref.text,
                "name": name,
                "doc": doc,
                "limit": self._limits.push_configs,
                "signals": self._keys.worker_channel,
                "context_ms": self._limits.context_ms,
                "task_ms": self._limits.task_ms,
            },
        )
        match word_of(reply):
            case "put":
                return "put", reply[1]
            case ("too_many" | "unknown") as word:
                return word, ""
            case other:
                raise StoreCorrupt(f"put_push_config answered {other!r}")

    async def read_push_configs(self, ref: DeliveryRef) -> PushBook | None:
        """All callbacks of the task; None where there is no such task."""
        if tag_of_task(ref.task_id) is None:
            return None
        reply = await self._run(_READ, self._pair(ref), {})
        if word_of(reply) != "configs":
            return None
        _, phase, last, raw = reply
        fields = dict(zip(raw[::2], raw[1::2], strict=True))
        places = {field[2:]: int(place) for field, place in fields.items() if field.startswith("n:")}
        configs = tuple(
            StoredConfig(name, fields[f"v:{name}"], fields[f"c:{name}"], fields[f"d:{name}"])
            for name in sorted(places, key=lambda name: places[name])
        )
        return PushBook(configs, fields.get("rev", "0"), fields.get("owner", ""), fields.get("fence", ""), phase, last)

    async def drop_push_config(self, ref: DeliveryRef, name: str) -> bool:
        """Removes a callback, if it is there; False where there is no such task."""
        if tag_of_task(ref.task_id) is None:
            return False
        args: dict[str, Argument] = {"name": name, "entry": ref.text, "signals": self._keys.worker_channel}
        return word_of(await self._run(_DROP, self._pair(ref), args)) == "dropped"

    async def claim_push(self, worker: str, ref: DeliveryRef, *, owner: str) -> str | None:
        """Takes the task's delivery from `owner` ('' where nobody has it); its fence, None where there is nothing."""
        keys = self._keys
        reply = await self._run(
            self._claim,
            (self._pair(ref)[0], keys.deliveries(worker), keys.workers, keys.deliveries(owner), keys.undelivered),
            {"worker": worker, "owner": owner, "entry": ref.text, "context_ms": self._limits.context_ms},
        )
        return str(reply[1]) if word_of(reply) == "claimed" else None

    async def settle_push(self, worker: str, ref: DeliveryRef, fence: str, config: StoredConfig, to: str) -> Held:
        """The callback was told everything up to `to`; with its own cursor: is it still ours to tell?"""
        reply = await self._run(
            _SETTLE,
            (self._pair(ref)[0],),
            {"worker": worker, "fence": fence, "name": config.name, "version": config.version, "to": to},
        )
        return _held("settle_push", word_of(reply), "settled")

    async def bury_push(
        self, worker: str, ref: DeliveryRef, fence: str, config: StoredConfig, to: str, *, letter: str, always: bool
    ) -> Held:
        """Gives up on the event at `to`; `always`: the letter is kept however many there are."""
        reply = await self._run(
            _BURY,
            (self._pair(ref)[0], self._keys.letters),
            {
                "worker": worker,
                "fence": fence,
                "name": config.name,
                "version": config.version,
                "to": to,
                "letter": letter,
                "entry": ref.text,
                "always": "1" if always else "0",
                "most": MOST_LETTERS,
                "context_ms": self._limits.context_ms,
            },
        )
        return _held("bury_push", word_of(reply), "buried")

    async def release_push(
        self, worker: str, ref: DeliveryRef, fence: str, *, seen: str = "", rev: str = "", hand_on: bool = False
    ) -> Released:
        """Lets go: nothing is left to tell after `seen`; or, with `hand_on`, others go on at once."""
        reply = await self._run(
            _RELEASE,
            (*self._pair(ref), self._keys.deliveries(worker), self._keys.undelivered),
            {
                "worker": worker,
                "fence": fence,
                "entry": ref.text,
                "seen": seen,
                "rev": rev,
                "hand_on": "1" if hand_on else "0",
                "context_ms": self._limits.context_ms,
            },
        )
        match word_of(reply):
            case ("released" | "busy" | "lost") as word:
                return word
            case other:
                raise StoreCorrupt(f"release_push answered {other!r}")

    async def list_dead_letters(self, *, most: int = 100) -> tuple[DeadLetter, ...]:
        """The newest dead letters of the whole fleet."""
        key = self._keys.letters
        found = await self._client.call("ZREVRANGE", key, 0, most - 1)
        if not found:
            return ()
        places = [member.split(":") for member in found]
        times = await self._client.batch([["ZSCORE", key, member] for member in found])
        docs = await self._client.batch(
            [
                ["HGET", self._pair(DeliveryRef(caller, task_id))[0], f"l:{name}:{event}"]
                for caller, task_id, name, event in places
            ]
        )
        letters, lapsed = [], []
        for member, (caller, task_id, name, event), at, doc in zip(found, places, times, docs, strict=True):
            if doc is None:
                lapsed.append(member)
            else:
                text = doc.partition("|")[2]
                letters.append(DeadLetter(caller, task_id, name, event, int(float(at or 0)), text))
        if lapsed:
            await self._client.call("ZREM", key, *lapsed)
        return tuple(letters)

    async def retry_dead_letter(self, letter: DeadLetter) -> bool:
        """Sends a letter's event, and what came after it, once more; False where letter or config is gone."""
        ref = DeliveryRef(letter.caller, letter.task_id)
        reply = await self._run(
            _RETRY,
            (self._pair(ref)[0], self._keys.letters, self._keys.undelivered),
            {
                "name": letter.name,
                "to": letter.event,
                "entry": ref.text,
                "signals": self._keys.worker_channel,
                "context_ms": self._limits.context_ms,
            },
        )
        return word_of(reply) == "retried"


def _held(operation: str, word: str, done: str) -> Held:
    if word == done:
        return "settled"
    if word in ("lost", "gone"):
        return word  # type: ignore[return-value]
    raise StoreCorrupt(f"{operation} answered {word!r}")
