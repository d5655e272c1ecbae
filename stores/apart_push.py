"""Callbacks on a Cluster: a task's are in its slot, the rosters, hints and dead letters of the fleet in another.

A worker is on the roster before it takes a delivery, and stays there until after it let go; a hint is left after what
it tells of. So whatever dies between, somebody finds what is to be done, at worst once too often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stores import scripts
from stores.client import Client
from stores.keys import DeliveryRef, Keys
from stores.places import Places
from stores.push import Held, PushStore, Released
from stores.records import DeadLetter, Limits, StoredConfig
from stores.scripts import Argument, Script

_LIST_LETTER = scripts.load("list_letter")


class ApartPushStore(PushStore):
    """The same operations."""

    def __init__(self, client: Client, keys: Keys, limits: Limits) -> None:
        super().__init__(client, keys, limits)
        self._places = Places(client, keys, limits)

    async def _run(self, script: Script, keys: Sequence[str], args: Mapping[str, Argument]) -> Any:
        """With the keys of the task's slot only."""
        return await self._client.run(script, keys[: script.required_keys], {"serves": "1", **args})

    async def put_push_config(
        self, worker: str, ref: DeliveryRef, name: str, doc: str
    ) -> tuple[Literal["put", "too_many", "unknown"], str]:
        await self._places.move_roster(worker, ("d", ref.text))
        word, fence = await super().put_push_config(worker, ref, name, doc)
        if not fence:
            await self._places.unserve(worker, ref)
        return word, fence

    async def claim_push(self, worker: str, ref: DeliveryRef, *, owner: str) -> str | None:
        await self._places.move_roster(worker, ("d", ref.text))
        fence = await super().claim_push(worker, ref, owner=owner)
        if fence is None and owner not in ("", worker) and await self._is_dead(owner):
            # The dead one may have let go and not said so any more.
            fence = await super().claim_push(worker, ref, owner="")
        if fence is None:
            await self._places.unserve(worker, ref)
        if owner not in ("", worker):
            await self._places.move_roster(owner, ("x", ref.text))
        await self._places.leave_hints(("U", ref.text))
        return fence

    async def _is_dead(self, worker: str) -> bool:
        return bool(await self._client.call("EXISTS", self._keys.tombstone(worker)))

    async def bury_push(
        self, worker: str, ref: DeliveryRef, fence: str, config: StoredConfig, to: str, *, letter: str, always: bool
    ) -> Held:
        member = f"{ref.text}:{config.name}:{to}"
        # Before, so that it is listed whatever dies; and after, because a list drops what it does not find.
        await self._list_letter(member)
        word = await super().bury_push(worker, ref, fence, config, to, letter=letter, always=always)
        await self._list_letter(member)
        return word

    async def _list_letter(self, member: str) -> None:
        await self._client.run(
            _LIST_LETTER, (self._keys.letters,), {"member": member, "context_ms": self._limits.context_ms}
        )

    async def release_push(
        self, worker: str, ref: DeliveryRef, fence: str, *, seen: str = "", rev: str = "", hand_on: bool = False
    ) -> Released:
        word = await super().release_push(worker, ref, fence, seen=seen, rev=rev, hand_on=hand_on)
        if hand_on and word == "released":
            await self._places.leave_hints(("u", ref.text))
        if word != "busy":
            await self._places.unserve(worker, ref)
        return word

    async def retry_dead_letter(self, letter: DeadLetter) -> bool:
        ref = DeliveryRef(letter.caller, letter.task_id)
        retried = await super().retry_dead_letter(letter)
        if retried:
            if not await self._client.call("HGET", self._pair(ref)[0], "owner"):
                await self._places.leave_hints(("u", ref.text))
            await self._client.call("ZREM", self._keys.letters, f"{ref.text}:{letter.name}:{letter.event}")
        return retried
