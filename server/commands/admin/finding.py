"""From the ids people have to the keys of the store: an id alone does not say whose it is."""

from __future__ import annotations

from server.auth.caller import ANONYMOUS
from server.commands.admin.flags import KEYS_WALKED
from server.commands.admin.opening import Opened
from stores.keys import ContextRef, is_uuid


class NotThere(Exception):
    """Nothing, or more than one thing, goes by that name; the text says so and what to do."""


async def caller_of_task(fleet: Opened, task_id: str, caller: str | None) -> str:
    """Whose task it is. Cheap guesses first, then a walk over the keys."""
    if not is_uuid(task_id):
        raise NotThere(f"{task_id!r} is no task id.")
    task_id = task_id.lower()
    if caller is not None:
        if await fleet.admin.task(caller, task_id) is None:
            raise NotThere(f"Caller {caller} has no task {task_id}.")
        return caller
    if await fleet.admin.task(ANONYMOUS.key, task_id) is not None:
        return ANONYMOUS.key
    found = await fleet.surveyor.find_task(task_id, KEYS_WALKED)
    return _one(found, f"task {task_id}", fleet)


async def context_of(fleet: Opened, context_id: str, caller: str | None) -> ContextRef:
    if caller is not None:
        ref = ContextRef.of(caller, context_id)
        if not await fleet.admin.contexts([ref]):
            raise NotThere(f"Caller {caller} has no context {context_id!r}.")
        return ref
    ref = ContextRef.of(ANONYMOUS.key, context_id)
    if await fleet.admin.contexts([ref]):
        return ref
    found = await fleet.surveyor.find_context(context_id, KEYS_WALKED)
    chosen = _one([ref.caller for ref in found], f"context {context_id!r}", fleet)
    return next(ref for ref in found if ref.caller == chosen)


def _one(callers: list[str], what: str, fleet: Opened) -> str:
    if not callers:
        raise NotThere(f"There is no {what} in {fleet.namespace} on {fleet.where}: it lapsed, or it is elsewhere.")
    if len(callers) > 1:
        raise NotThere(f"Several callers have a {what}: say which with --caller. They are: {', '.join(callers)}.")
    return callers[0]
