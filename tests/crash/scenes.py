"""What victims do until they die: every way a turn can go, and which operations of the store each meets."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import httpx

from tests.crash.cell import Cell
from tests.support.crash import Point
from tests.support.wait import wait_found


@dataclass(frozen=True, slots=True)
class Scene:
    """`play` begins the victim with the point, and returns when everything has come to rest or the victim is dead."""

    play: Callable[[Cell, Point | None], Awaitable[None]]
    meets: frozenset[str]
    agent: str = "Puppet"
    since: str = "admit_turn"
    """Steps are counted from the first call of this operation on."""


SCENES: dict[str, Scene] = {}


def scene(
    *meets: str, agent: str = "Puppet", since: str = "admit_turn"
) -> Callable[[Callable[[Cell, Point | None], Awaitable[None]]], None]:
    def add(play: Callable[[Cell, Point | None], Awaitable[None]]) -> None:
        SCENES[play.__name__] = Scene(play, frozenset(meets), agent, since)

    return add


TURN = ("admit_turn", "finish_turn")


@scene(*TURN)
async def blocking(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.say("echo one")


@scene(*TURN, "append_events", "beat_worker", "running_marks")
async def streaming(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.stream("pace 6")


@scene(*TURN, "append_events", agent="ReplaySafe")
async def run_again(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.stream("pace 3")


@scene(*TURN, agent="Direct")
async def direct(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.say("reply")


@scene(*TURN, "read_task")
async def queued(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    gate = uuid.uuid4().hex
    await cell.say(f"hold {gate}", wait=False)
    if not cell.victim.dead.is_set():
        waiting = [asyncio.create_task(cell.say(f"echo {number}")) for number in range(2)]
        await cell.until(lambda: cell.victim.trace.count("admit_turn") == 3, "both have come")
        cell.ledger.open(gate)
        await asyncio.gather(*waiting)
    cell.ledger.open(gate)


@scene(*TURN)
async def asked_and_answered(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    question = await cell.say("ask")
    if question is not None:
        await cell.say("echo answer", task=question.id)


@scene(*TURN, agent="Superseding")
async def superseded(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    if await cell.say("ask") is not None:
        await cell.say("echo instead")


@scene(*TURN, "append_events", "read_task", "cancel_task")
async def canceled_while_it_ran(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    if await cell.say("work never", wait=False) is not None:
        await cell.cancel(cell.said[-1])


@scene(*TURN, "read_task", "cancel_task")
async def canceled_while_it_waited(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    gate = uuid.uuid4().hex
    await cell.say(f"hold {gate}", wait=False)
    if await cell.say("echo never", wait=False) is not None:
        await cell.cancel(cell.said[-1])
    cell.ledger.open(gate)
    await cell.until(lambda: "finish_turn" in cell.victim.trace, "the first has ended")


@scene(*TURN, "read_task", "cancel_task")
async def canceled_while_idle(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    if await cell.say("ask") is not None:
        await cell.cancel(cell.said[-1])


DELIVERY = ("read_push_configs", "settle_push", "release_push")


@scene(*TURN, *DELIVERY)
async def told_by_callback(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.say("echo one", hook=True)
    await cell.until(lambda: "release_push" in cell.victim.trace, "the callback was served")


@scene(*TURN, *DELIVERY, "append_events", "read_task")
async def told_by_callback_all_along(cell: Cell, point: Point | None) -> None:
    cell.start(point=point)
    await cell.stream("pace 2", hook=True)
    await cell.until(lambda: "release_push" in cell.victim.trace, "the callback was served")


@scene(*TURN, *DELIVERY, "bury_push")
async def callback_that_refuses(cell: Cell, point: Point | None) -> None:
    cell.hook.statuses = [400]  # is never asked again with the same
    cell.start(point=point)
    await cell.say("echo one", hook=True)
    await cell.until(lambda: "release_push" in cell.victim.trace, "it was given up")


@scene(*TURN, *DELIVERY, "leave_fleet", "deliveries", "claim_push")
async def leaving(cell: Cell, point: Point | None) -> None:
    """A drain: the running turn ends here, the queued one and the callback are left to others."""
    await leave(cell, point)


@scene("beat_worker", "take_over", "drop_ready", "claim_push", "finish_turn", *DELIVERY, since="beat_worker")
async def taking_what_was_left(cell: Cell, point: Point | None) -> None:
    """What a worker does that finds the queue and the callback of one that drained."""
    await leave(cell, None)
    cell.start(since="beat_worker", point=point)
    await cell.until(lambda: has_done(cell, 1), "all was done")


async def leave(cell: Cell, point: Point | None) -> None:
    cell.hook.open.clear()  # the receiver does not answer before the worker is gone
    cell.start(point=point)
    gate = uuid.uuid4().hex
    await cell.say(f"hold {gate}", wait=False, hook=True)
    await cell.say("echo left", wait=False)
    cell.victim.signal(signal.SIGTERM)
    with suppress(httpx.TransportError):
        await wait_found(lambda: is_draining(cell), what="it drains")
    cell.ledger.open(gate)
    await cell.until(lambda: False, "it has left")
    cell.hook.open.set()


async def is_draining(cell: Cell) -> bool:
    return (await cell.http.get(f"{cell.victim.url}/readyz")).status_code == 503


def has_done(cell: Cell, turns: int) -> bool:
    """Whether the victim ended so many turns and served the callback."""
    return "release_push" in cell.victim.trace and cell.victim.trace.count("finish_turn") >= turns


@scene("admit_turn", "pass_turn", agent="Outdated")
async def passing_on(cell: Cell, point: Point | None) -> None:
    """A turn is left to a worker of another version, which is there by its word only."""
    cell.start(point=point)
    async with cell.store() as store:
        await store.fleet.beat_worker("another", json.dumps({"assistant": "another version"}))
    await cell.say("echo passed", wait=False)
    await cell.until(lambda: "pass_turn" in cell.victim.trace, "it was passed on")


RECOVERY = ("reap_worker", "take_over", "settle_hint", "deliveries", "claim_push", "settle_delivery")


@scene(*RECOVERY, "finish_turn", *DELIVERY, since="reap_worker")
async def recovering(cell: Cell, point: Point | None) -> None:
    """What a worker does that finds another one dead, with a running turn, a queued one and a callback."""
    await dying(cell)
    cell.start(since="reap_worker", point=point, observes=True)
    await cell.until(lambda: has_done(cell, 2), "all was done")


async def dying(cell: Cell) -> None:
    cell.start()
    await cell.say("work never", wait=False, hook=True)
    await cell.say("echo left", wait=False)
    await wait_found(lambda: begun(cell), what="the first one runs")
    await cell.victim.kill()


async def begun(cell: Cell) -> bool:
    return bool(cell.ledger.notes("start", context=cell.context))


@scene("take_over", "settle_hint", "finish_turn", "append_events", since="reap_worker", agent="ReplaySafe")
async def recovering_to_run_again(cell: Cell, point: Point | None) -> None:
    cell.start()
    gate = uuid.uuid4().hex
    await cell.say(f"work {gate}", wait=False)
    await wait_found(lambda: begun(cell), what="the first one runs")
    await cell.victim.kill()
    cell.ledger.open(gate)
    cell.start(since="reap_worker", point=point, observes=True)
    await cell.until(lambda: "finish_turn" in cell.victim.trace, "it ran again")
