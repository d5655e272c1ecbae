"""Reading tasks: one by id, many by index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from stores import scripts
from stores.client import Client
from stores.decode import decode_view, word_of
from stores.keys import ContextRef, Keys, tag_of_task
from stores.records import Limits, MessageRecord, Page, TaskView
from stores.scripts import Argument

_READ = scripts.load("read_task")
_READ_MESSAGE = scripts.load("read_message")
_LIST = scripts.load("list_page")

READ_MOST = 500


class TaskStore:
    """Tasks of callers. Another caller's task is simply not there: the caller is part of its key."""

    def __init__(self, client: Client, keys: Keys, limits: Limits, settled: Callable[[], Awaitable[None]]) -> None:
        """`settled`: waits until this process's own changes are listed."""
        self._client = client
        self._keys = keys
        self._limits = limits
        self._settled = settled

    def _read(self, tag: str, caller: str, task_id: str, after: str) -> tuple[Sequence[str], dict[str, Argument]]:
        keys = (self._keys.task(tag, caller, task_id), self._keys.log(tag, caller, task_id))
        return keys, {"after": after, "most": READ_MOST}

    async def read_task(self, caller: str, task_id: str, after: str = "") -> TaskView | None:
        """The task with the entries its document does not cover, or those after the cursor (at most READ_MOST)."""
        tag = tag_of_task(task_id)
        if tag is None:
            return None
        reply = await self._client.run(_READ, *self._read(tag, caller, task_id, after))
        return decode_view(task_id, reply[1:]) if word_of(reply) == "task" else None

    async def read_message(self, context: ContextRef, mid: str) -> MessageRecord | None:
        reply = await self._client.run(
            _READ_MESSAGE,
            (self._keys.context(context),),
            {"prefix": self._keys.prefix(context.tag), "caller": context.caller, "cid": context.cid, "mid": mid},
        )
        return MessageRecord(*reply[1:]) if word_of(reply) == "message" else None

    async def list_tasks(
        self,
        caller: str,
        *,
        context: ContextRef | None = None,
        state: str | None = None,
        after_ms: int = 0,
        before: str = "",
        size: int = 50,
    ) -> Page:
        """One page, newest status first. `before` is the position a former page ended at."""
        keys = self._keys
        index = keys.shelf(context) if context else keys.index(caller)
        listing = (index, keys.context(context)) if context else (index,)
        await self._settled()
        args: dict[str, Argument] = {
            "prefix": keys.prefix(context.tag) if context else "",
            "caller": caller,
            "state": state or "",
            "floor": f"{after_ms:013d}" if after_ms > 0 else "0",
            "before": before,
            "size": size,
            "context_ms": self._limits.context_ms,
            "task_ms": self._limits.task_ms,
        }
        views: dict[str, TaskView] = {}
        # An entry whose task lapsed is dropped and the page read again; each round drops what it met, so it ends.
        for _ in range(8):
            total, members, more = await self._page(listing, args)
            found = [tuple(member.split("|")) for member in members]
            await self._load(caller, [task_id for _, task_id, _ in found if task_id not in views], views)
            gone = [entry for entry in found if entry[1] not in views]
            if self._client.apart and not context:
                # Where the index is apart from its tasks, an entry can be late; what is shown is as the task is.
                late = [entry for entry in found if entry not in gone and not _is_at(views[entry[1]], entry)]
                await self._relist(index, [views[task_id] for _, task_id, _ in late])
                gone += late
            if not gone:
                break
            await self._client.call("ZREM", index, *_members(gone))
        shown = dict.fromkeys(task_id for _, task_id, _ in found if task_id in views)
        tasks = tuple(views[task_id] for task_id in shown)
        return Page(tasks, total, "|".join(found[-1][:2]) if more and found else "")

    async def _relist(self, index: str, views: Sequence[TaskView]) -> None:
        for view in views:
            side = "e" if view.phase == "closed" else "a"
            place = f"{view.at_ms}|{view.task_id}"
            await self._client.call("ZADD", index, 0, f"{side}|{view.state}|{place}")
            if view.phase == "waiting":
                lapses = str(view.at_ms + self._limits.context_ms)
                await self._client.call("ZADD", f"{index}:lapse", lapses, f"{place}|{view.state}")
                await self._client.call("PEXPIRE", f"{index}:lapse", 2 * self._limits.context_ms)

    async def _page(self, listing: Sequence[str], args: dict[str, Argument]) -> tuple[int, list[str], int]:
        while True:
            word, *page = await self._client.run(_LIST, listing, args)
            if word == "page":
                return page[0], page[1], page[2]

    async def _load(self, caller: str, task_ids: list[str], views: dict[str, TaskView]) -> None:
        calls = [self._read(tag_of_task(task_id) or "", caller, task_id, "") for task_id in task_ids]
        replies: list[Any] = await self._client.run_batch(_READ, calls) if calls else []
        for task_id, reply in zip(task_ids, replies, strict=True):
            if word_of(reply) == "task":
                views[task_id] = decode_view(task_id, reply[1:])


def _is_at(view: TaskView, entry: tuple[str, ...]) -> bool:
    return (str(view.at_ms), view.state) == (entry[0], entry[2])


def _members(entries: Sequence[tuple[str, ...]]) -> list[str]:
    """The index members of tasks given as (at, id, state)."""
    members = []
    for at, task_id, state in entries:
        members += [f"{side}|{state}|{at}|{task_id}" for side in "ae"]
    return members
