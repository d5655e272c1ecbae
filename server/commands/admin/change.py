"""The commands that change something, and what they say about it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from server.commands.admin.act import Ending, Operator
from server.commands.admin.finding import NotThere, caller_of_task, context_of
from server.commands.admin.letters import letter_name
from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown
from server.commands.admin.workers import place_of

MOST_LETTERS = 10_000
LOOK_SECONDS = 0.2


async def tasks_cancel(fleet: Opened, task_id: str, *, caller: str | None, wait: float, force: bool) -> Shown:
    who = await caller_of_task(fleet, task_id, caller)
    operator = Operator(fleet, wait_s=wait)
    try:
        ended = await operator.cancel(who, task_id.lower(), force=force)
    finally:
        await operator.leave()
    return Shown({"task": task_id, "ended": ended.did, "state": ended.word}, _sentence(task_id, ended), ended.code)


async def tasks_fail(fleet: Opened, task_id: str, *, caller: str | None, reason: str) -> Shown:
    who = await caller_of_task(fleet, task_id, caller)
    operator = Operator(fleet, wait_s=0)
    try:
        ended = await operator.fail(who, task_id.lower(), reason)
    finally:
        await operator.leave()
    return Shown({"task": task_id, "ended": ended.did, "state": ended.word}, _sentence(task_id, ended), ended.code)


def _sentence(task_id: str, ended: Ending) -> str:
    if ended.did:
        return f"{task_id} is {ended.word}."
    match ended.word:
        case "asked":
            return (
                f"{task_id} was asked to stop, and has not yet. `nonstick ps` shows its worker; --force closes it "
                "without waiting for that."
            )
        case "queued":
            return f"{task_id} will end when its context's running turn has: `nonstick ps` shows it."
        case "changing":
            return f"{task_id} kept changing while we tried; try again."
        case "unknown":
            return f"{task_id} is gone."
        case state:
            return f"{task_id} had ended already: {state}."


async def contexts_release(fleet: Opened, context_id: str, *, caller: str | None, wait: float, force: bool) -> Shown:
    ref = await context_of(fleet, context_id, caller)
    operator = Operator(fleet, wait_s=wait)
    endings: dict[str, str] = {}
    try:
        # The queue first, or ending the running one would start it; what waits for its caller last, since its end is a
        # turn of its own.
        [it] = await fleet.admin.contexts([ref])
        queue = [*dict.fromkeys(await fleet.admin.queue(ref))]
        first = [*(task for task in queue if task != it.running), *([it.running] if it.running else [])]
        idle = [task for task in await fleet.admin.open_tasks(ref) if task not in first]
        for task in [*first, *idle]:
            endings[task] = (await operator.cancel(ref.caller, task, force=force)).word
    finally:
        await operator.leave()
    [it] = await fleet.admin.contexts([ref])
    settled = await fleet.admin.settle_context(it)
    lines = [f"  {task}  {word}" for task, word in endings.items()]
    released = settled == "released"
    verdict = "no longer counts as live" if released else "is still live: `nonstick contexts show` says why"
    data = {"context": context_id, "released": released, "tasks": endings}
    return Shown(data, "\n".join([f"Context {context_id} {verdict}.", *lines]), 0 if released else 1)


async def workers_drain(fleet: Opened, name: str, *, wait: float) -> Shown:
    chosen = [it for it in await fleet.admin.workers() if it.id.startswith(name) or place_of(it) == name]
    if len(chosen) != 1:
        many = f"Several workers are called {name}: give more of the id." if chosen else f"No worker is called {name}."
        raise NotThere(many)
    [worker] = chosen
    if not await fleet.admin.ask_drain(worker.id):
        return Shown({"worker": worker.id, "asked": False}, f"{worker.id} does not beat: there is nobody to ask.", 1)
    deadline = time.monotonic() + wait
    while wait:
        if worker.id not in {it.id for it in await fleet.admin.workers() if it.seen_ms}:
            return Shown({"worker": worker.id, "asked": True, "gone": True}, f"{worker.id} has ended.")
        if time.monotonic() > deadline:
            text = (
                f"{worker.id} was asked and has not ended within {wait:g} s; `nonstick workers list` shows its turns."
            )
            return Shown({"worker": worker.id, "asked": True, "gone": False}, text, 1)
        await asyncio.sleep(LOOK_SECONDS)
    return Shown({"worker": worker.id, "asked": True}, f"{worker.id} was asked to finish its turns and end.")


async def push_change(fleet: Opened, action: str, *, letter: str | None, task: str | None, every: bool) -> Shown:
    found = await fleet.store.push.list_dead_letters(most=MOST_LETTERS)
    chosen = [it for it in found if every or it.task_id == task or letter_name(it) == letter]
    if not chosen and not every:
        raise NotThere(f"There is no such dead letter: {letter or task}.")
    done: dict[str, Any] = {}
    # The oldest first: sending it again sends everything after it, so that later letters are gone by then.
    for it in sorted(chosen, key=lambda one: (one.task_id, one.name, _position(one.event))):
        if action == "retry":
            done[letter_name(it)] = (
                "sent again" if await fleet.store.push.retry_dead_letter(it) else "came with another"
            )
        else:
            done[letter_name(it)] = "dropped" if await fleet.admin.drop_letter(it) else "gone"
    lines = [f"{name}  {word}" for name, word in done.items()] or ["There are no dead letters."]
    return Shown(done, "\n".join(lines))


def _position(event: str) -> tuple[int, ...]:
    return tuple(int(part) for part in event.split("-") if part)
