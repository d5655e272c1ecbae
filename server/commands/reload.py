"""`nonstick reload`: ask every worker of a fleet to load its assistant again, and see that they did."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from server.commands.show import complain
from server.config import ConfigRefused, Flags, Plan, make_plan
from server.config.problems import problem
from server.config.settings import Settings
from stores import Store, open_store
from stores.client import Client
from stores.embedded import EmbeddedEngineError, socket_address
from stores.errors import StoreError
from stores.namespaces import namespaces

LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Follower:
    """One worker and how far it is; `error` says why it stayed with what it had."""

    id: str
    place: str
    generation: str
    error: str


def reload(flags: Flags, environ: Mapping[str, str], namespace: str | None, timeout: float) -> int:
    """0 when every worker has loaded the files, 1 when one could not, 2 when there is nobody to ask."""
    try:
        plan = make_plan(flags, environ, serves=False)
        url = _store_url(plan)
        wanted = namespace or plan.settings.namespace or _namespace_of(plan.settings)
        return asyncio.run(_reload(url, wanted, plan, timeout))
    except ConfigRefused as refused:
        return complain(refused)
    except StoreError as error:
        found = problem("store_unreachable", plan.store, f"{error}.", "See that it runs, and that this is its address.")
        return complain(ConfigRefused([found]))


def _store_url(plan: Plan) -> str:
    """Where the store is, found as `run` finds it."""
    if plan.data_dir is None:
        return plan.settings.store_url
    try:
        address = socket_address(plan.data_dir.absolute())
    except EmbeddedEngineError as error:
        raise ConfigRefused([problem("store_unreachable", "--data-dir", f"{error}.", "See above.")]) from None
    if not Path(address).exists():
        raise ConfigRefused(
            [
                problem(
                    "store_unreachable",
                    "--data-dir",
                    f"No server runs with its data in {plan.data_dir}.",
                    "Start where `nonstick run` was started, or give its --data-dir; or name the Redis with --redis.",
                )
            ]
        )
    return f"unix://{quote(address)}"


def _namespace_of(settings: Settings) -> str | None:
    """The namespace that `run` with the same flags takes; None when the flags don't say what runs."""
    if settings.agent is None and settings.assistant is None:
        return None
    from server.agents.load import AgentNotFound
    from server.app import load, namespace

    try:
        return namespace(settings, load(settings))
    except AgentNotFound as error:
        raise ConfigRefused([problem("agent_not_loaded", "--agent", f"{error}.", "Correct it.")]) from None


async def _reload(url: str, wanted: str | None, plan: Plan, timeout: float) -> int:
    from server.app import limits

    alive = await _alive(url)
    store = open_store(url, _one(alive, wanted, plan), limits(plan.settings))
    try:
        return await _ask(store, timeout)
    finally:
        await store.close()


async def _alive(url: str) -> tuple[str, ...]:
    """The fleets on a store that have a worker."""
    client = Client(url)
    try:
        known = await namespaces(client)
    finally:
        await client.close()
    alive: list[str] = []
    for name in known:
        store = open_store(url, name)
        try:
            if await _followers(store):
                alive.append(name)
        finally:
            await store.close()
    return tuple(alive)


def _one(alive: tuple[str, ...], wanted: str | None, plan: Plan) -> str:
    if wanted in alive:
        return str(wanted)
    if wanted is None and len(alive) == 1:
        return alive[0]
    if not alive:
        message, hint = f"No worker is alive on {plan.store}.", "Start one: it loads the files as they are."
    else:
        message = f"No fleet called {wanted} is on {plan.store}." if wanted else f"Which fleet on {plan.store}?"
        hint = f"Name one with --namespace. There are: {', '.join(alive)}."
    raise ConfigRefused([problem("no_fleet", "--namespace", message, hint)])


async def _ask(store: Store, timeout: float) -> int:
    fleet = await _followers(store)
    wish = uuid.uuid4().hex
    await store.fleet.ask_reload(wish)
    print(f"Asked {len(fleet)} worker{'' if len(fleet) == 1 else 's'} of {store.keys.namespace} to load again.")
    told: set[str] = set()
    deadline = time.monotonic() + timeout
    while True:
        fleet = await _followers(store)
        done = [one for one in fleet if one.generation == wish]
        for one in done:
            if one.id not in told:
                told.add(one.id)
                print(
                    f"  {one.place}  {'failed' if one.error else 'loaded'}  ({len(told)} of {len(fleet)})", flush=True
                )
        if len(done) == len(fleet):
            return _conclude(done)
        if time.monotonic() > deadline:
            late = ", ".join(one.place for one in fleet if one.generation != wish)
            print(f"\nAfter {timeout:g} s these have not answered: {late}. See their logs.", file=sys.stderr)
            return 1
        await asyncio.sleep(LOOK_SECONDS)


def _conclude(done: list[Follower]) -> int:
    reasons = sorted({one.error for one in done if one.error})
    if not reasons:
        print("All serve what is in their files now.")
        return 0
    failed = sum(1 for one in done if one.error)
    who = "All workers" if failed == len(done) else f"{failed} of {len(done)} workers"
    print(f"\n{who} could not load it and go on with what they had:\n", file=sys.stderr)
    print("\n\n".join(reasons), file=sys.stderr)
    return 1


async def _followers(store: Store) -> list[Follower]:
    """The live workers, in a stable order."""
    fleet: list[Follower] = []
    for worker, info in (await store.fleet.workers()).items():
        if not info:
            continue  # its beat has lapsed
        said = json.loads(info)
        loaded = said.get("loaded") or {}
        place = f"worker {said.get('pid', '?')} on {said.get('host', '?')}"
        fleet.append(Follower(worker, place, loaded.get("generation", ""), loaded.get("error", "")))
    return sorted(fleet, key=lambda one: (one.place, one.id))
