"""`nonstick reload`: ask every worker of a fleet to load its assistant again, and see that they did."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from server.commands.admin.opening import opened, plan_of, store_url, unreachable
from server.commands.show import complain
from server.config import ConfigRefused, Plan
from server.config.problems import problem
from stores import Store
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


def reload(arguments: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """0 when every worker has loaded the files, 1 when one could not, 2 when there is nobody to ask."""
    where = "the store"
    try:
        plan = plan_of(arguments, environ)
        where = plan.store
        with store_url(plan, start=False) as url:
            return asyncio.run(_reload(url, plan, arguments["namespace"], arguments["timeout"]))
    except ConfigRefused as refused:
        return complain(refused)
    except StoreError as error:
        return complain(unreachable(where, error))


async def _reload(url: str, plan: Plan, wanted: str | None, timeout: float) -> int:
    async with opened(url, plan, wanted) as fleet:
        if not await _followers(fleet.store):
            message = f"No worker of {fleet.namespace} is alive on {fleet.where}."
            others = [name for name in await namespaces(fleet.store.client) if name != fleet.namespace]
            hint = "Start one: it loads the files as they are."
            if others:
                hint = f"Name the fleet with --namespace. There are: {', '.join(others)}."
            raise ConfigRefused([problem("no_fleet", "--namespace", message, hint)])
        return await _ask(fleet.store, timeout)


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
