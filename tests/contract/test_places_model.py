"""R01, every order of its steps: a context that is live has its place in the set, whoever crashes where.

A small model of what the scripts do (reserve_place, admit_turn, settle_apart, release_place, finish_turn): each step is
atomic in its slot, everything between two steps can be interleaved, and an actor can stop for good before any of its
steps. All states that can be reached are looked at. The same model with simpler rules shows what is wrong with them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import pytest

Rule = Literal["ours", "own stamp", "no reserve_again"]
# So many reservations are enough for each to be given back while another is under way; without a bound a sender and the
# sweeper could go on for ever.
MOST_STAMPS = 5


@dataclass(frozen=True, slots=True)
class World:
    """Both slots, and how far everybody is."""

    entry: int = 0
    """The stamp under which the context has its place; 0: it has none."""
    counter: int = 0
    live: bool = False
    known: int = 0
    released: int = 0
    messages: tuple[str, ...] = ("", "")
    """What the context knows of each message: '', running, done."""
    actors: tuple[tuple[str, int], ...] = ()
    """Each one's next step and the stamp it holds."""


@dataclass(frozen=True, slots=True)
class Actor:
    kind: Literal["sender", "sweeper"]
    message: int = 0


# Three senders, two of which send the same message, and a sweeper.
SENDERS = (Actor("sender", 0), Actor("sender", 0), Actor("sender", 1))
CAST = (*SENDERS, Actor("sweeper"))


def put(world: World, at: int, step: str, stamp: int, **changes: object) -> World:
    actors = (*world.actors[:at], (step, stamp), *world.actors[at + 1 :])
    return replace(world, actors=actors, **changes)  # type: ignore[arg-type]


def settled(world: World, at: int, stamp: int, rule: Rule, then: str) -> World:
    """settle_apart: only what is not live is given back, up to the greatest stamp known."""
    if rule == "own stamp":
        return put(world, at, f"release {then}", stamp)
    if world.live:
        return put(world, at, then, 0)
    most = max(world.known, stamp)
    return put(world, at, f"release {then}", most, known=most, released=max(world.released, most))


def step_of(world: World, at: int, actor: Actor, rule: Rule) -> World | None:
    """The world after this actor's next step; None where it has none."""
    step, stamp = world.actors[at]
    if step.startswith("release"):
        gone = world.entry if world.entry > stamp else 0
        return put(world, at, step.partition(" ")[2], 0, entry=gone)
    match step:
        case "reserve":
            fresh = world.counter + 1
            return put(world, at, "admit", fresh, entry=fresh, counter=fresh)
        case "admit":
            message = world.messages[actor.message]
            if rule != "no reserve_again" and not world.live and stamp <= world.released:
                return put(world, at, "reserve", 0)
            known = max(world.known, stamp)
            if message:
                # A duplicate, in flight or replayed: it admits nothing, and looks whether its place is needed.
                return put(world, at, "settle", stamp, known=known)
            if world.live:
                # It queues behind the other, and ends with it: one more reservation of a live context.
                ended = _told(world, actor.message, "done")
                return put(world, at, "end", 0, known=known, messages=ended)
            begun = _told(world, actor.message, "running")
            return put(world, at, "finish", stamp, known=known, live=True, messages=begun)
        case "finish":
            return put(world, at, "settle", stamp, live=False, messages=_told(world, actor.message, "done"))
        case "settle":
            return settled(world, at, stamp, rule, "end")
        case "look":
            return put(world, at, "sweep", world.entry) if world.entry else None
        case "sweep":
            return settled(world, at, stamp, rule, "look")
    return None


def _told(world: World, message: int, word: str) -> tuple[str, ...]:
    return (*world.messages[:message], word, *world.messages[message + 1 :])


@cache
def explore(rule: Rule, cast: tuple[Actor, ...] = CAST) -> tuple[int, World | None, list[World]]:
    """How many worlds there are, one that breaks the promise, and those where nobody has anything left to do."""
    first = World(actors=tuple(("look" if actor.kind == "sweeper" else "reserve", 0) for actor in cast))
    ends: list[World] = []
    seen, waiting = {first}, deque([first])
    while waiting:
        world = waiting.popleft()
        if world.live and not world.entry:
            return len(seen), world, ends
        nexts = []
        for at, actor in enumerate(cast):
            after = step_of(world, at, actor, rule)
            if after is None:
                continue
            nexts.append(after)
            # It may also die here, unless it is the sweeper: there is always some worker.
            if actor.kind == "sender":
                nexts.append(put(world, at, "dead", 0))
        if not nexts:
            ends.append(world)
        for after in nexts:
            if after.counter <= MOST_STAMPS and after not in seen:
                seen.add(after)
                waiting.append(after)
    return len(seen), None, ends


def test_a_live_context_has_its_place_in_every_order_of_steps_and_crashes() -> None:
    worlds, broken, _ = explore("ours")
    assert broken is None
    assert worlds > 10_000


def test_what_nobody_keeps_is_given_back_in_the_end() -> None:
    """Where nobody has a step left, a context that is not live has no place: the sweeper goes on while there is one."""
    _, _, ends = explore("ours")
    assert ends
    assert all(world.live or not world.entry for world in ends)


@pytest.mark.parametrize("rule", ["own stamp", "no reserve_again"])
def test_simpler_rules_lose_a_live_context(rule: Rule) -> None:
    """Who gives back its own stamp unasked, as a duplicate would that was refused; and who admits under a stamp that
    was given back: both leave a live context without its place."""
    _, broken, _ = explore(rule)
    assert broken is not None
    assert broken.live
    assert not broken.entry


def test_a_duplicate_that_was_refused_is_enough_for_that() -> None:
    _, broken, _ = explore("own stamp", SENDERS[:2])
    assert broken is not None
