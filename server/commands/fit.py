"""Asks the store that a plan names whether it is fit, before anybody serves on it."""

from __future__ import annotations

import asyncio

from server.config import ConfigRefused, Plan
from server.config.problems import problem
from stores import open_store
from stores.errors import StoreError
from stores.fitness import Finding
from stores.preflight import preflight

# A store that has not answered by then is told of and left alone: settings are also checked where it can't be reached,
# and workers wait for theirs.
ASK_SECONDS = 5.0


def look_at_store(plan: Plan) -> list[Finding]:
    """What to look at in the store; raises `ConfigRefused` where no worker would start on it."""
    findings = asyncio.run(_of_store(plan))
    refusals = [it for it in findings if it.refuses]
    if refusals:
        raise ConfigRefused(
            [problem("store_unfit", plan.store, f"{it.about}: {it.found}.", it.todo) for it in refusals]
        )
    return findings


async def _of_store(plan: Plan) -> list[Finding]:
    """The embedded one is set up by us."""
    if plan.data_dir is not None:
        return []
    store = open_store(plan.settings.store_url, str(plan.settings.namespace))
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await preflight(store, workers=plan.workers)
    except (StoreError, TimeoutError) as error:
        said = str(error).rstrip(".") or f"no answer within {ASK_SECONDS:g} s"
        return [Finding("store", "warn", f"can't be asked from here, so it was not checked: {said}")]
    finally:
        await store.close()
