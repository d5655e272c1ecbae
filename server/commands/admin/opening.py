"""Finding the store and the namespace of a fleet from the same flags, file and environment that `run` takes."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from server.config import ConfigRefused, Flags, Plan, make_plan
from server.config.problems import problem
from server.config.settings import Settings
from stores import Store, open_store
from stores.admin import AdminStore
from stores.census import Surveyor
from stores.cluster import open_client
from stores.embedded import EmbeddedEngine, EmbeddedEngineError, socket_address
from stores.namespaces import namespaces
from stores.preflight import judge_schema


@dataclass(frozen=True, slots=True)
class Opened:
    """A fleet's store, opened for its operator."""

    store: Store
    admin: AdminStore
    surveyor: Surveyor
    settings: Settings
    where: str

    @property
    def namespace(self) -> str:
        return self.store.keys.namespace


def plan_of(arguments: Mapping[str, Any], environ: Mapping[str, str]) -> Plan:
    names = ("agent", "assistant", "endpoints", "redis", "embedded", "data_dir")
    return make_plan(Flags(**{name: arguments[name] for name in names}), environ, serves=False)


@contextmanager
def store_url(plan: Plan, *, start: bool = True) -> Iterator[str]:
    """Where the store is. An embedded one that nobody runs is started for as long as it is looked at, if wished."""
    if plan.data_dir is None:
        yield plan.settings.store_url
        return
    folder = plan.data_dir.absolute()
    try:
        address = socket_address(folder)
        if _answers(address):
            yield f"unix://{quote(address)}"
            return
        if not start:
            raise _unreachable(
                f"No server runs with its data in {plan.data_dir}.",
                "Start where `nonstick run` was started, or give its --data-dir; or name the Redis with --redis.",
            )
        if not folder.is_dir():
            raise _unreachable(
                f"There is no data in {plan.data_dir}, and no other store is named.",
                "Start where `nonstick run` was started, or give its --data-dir; or name the Redis with --redis.",
            )
        print(f"No server runs over {plan.data_dir}: its Valkey is started while we look.", file=sys.stderr)
        with EmbeddedEngine(folder) as url:
            yield url
    except EmbeddedEngineError as error:
        raise _unreachable(f"{error}.", "See above.") from None


@asynccontextmanager
async def opened(url: str, plan: Plan, wanted: str | None) -> AsyncIterator[Opened]:
    """The fleet's store. Which fleet: the one that is named, the one the flags are about, or the only one there."""
    from server.app import limits

    name = wanted or plan.settings.namespace or await asyncio.to_thread(_namespace_of, plan.settings)
    if name is None:
        name = await _only(url, plan)
    # Whether its callbacks are served is the fleet's affair: what we end must reach them if they are.
    kept = limits(plan.settings)
    store = open_store(url, name, replace(kept, push_configs=max(kept.push_configs, 1)))
    try:
        if newer := judge_schema(await store.fleet.schema()):
            found, todo = newer[0].found, "Use that release's own commands."
            raise ConfigRefused([problem("store_unfit", plan.store, f"{name}: {found}.", todo)])
        if wanted is not None and not await store.client.call("EXISTS", store.keys.workers):
            known = ", ".join(await namespaces(store.client)) or "none"
            print(f"No worker of {wanted} was seen on {plan.store} lately. There are: {known}.", file=sys.stderr)
        admin = AdminStore(store.client, store.keys, store.limits)
        yield Opened(store, admin, Surveyor(store.client, store.keys), plan.settings, plan.store)
    finally:
        await store.close()


def _namespace_of(settings: Settings) -> str | None:
    """The namespace that `run` with the same flags takes; None when they don't say what runs."""
    if settings.agent is None and settings.assistant is None:
        return None
    from server.agents.load import AgentNotFound
    from server.app import load, namespace

    try:
        return namespace(settings, load(settings))
    except AgentNotFound as error:
        raise ConfigRefused([problem("agent_not_loaded", "--agent", f"{error}.", "Correct it.")]) from None


async def _only(url: str, plan: Plan) -> str:
    client = open_client(url)
    try:
        known = await namespaces(client)
    finally:
        await client.close()
    if len(known) == 1:
        return known[0]
    there = f"There are: {', '.join(known)}." if known else "No worker was seen there within the context retention."
    raise ConfigRefused(
        [problem("no_fleet", "--namespace", f"Which fleet on {plan.store}?", f"{there} Name one with --namespace.")]
    )


def _answers(address: str) -> bool:
    if not Path(address).exists():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def unreachable(where: str, error: Exception) -> ConfigRefused:
    """The store was named and can't be asked."""
    hint = "See that it runs, and that this is its address."
    return ConfigRefused([problem("store_unreachable", where, f"{str(error).rstrip('.')}.", hint)])


def _unreachable(message: str, hint: str) -> ConfigRefused:
    return ConfigRefused([problem("store_unreachable", "--data-dir", message, hint)])
