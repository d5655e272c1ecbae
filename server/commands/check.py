"""`nonstick check`: say what would run, or why nothing would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from server.commands.probe import prepare
from server.commands.show import complain, page
from server.config import ConfigRefused, Flags, Plan
from server.config.problems import problem
from stores import open_store
from stores.errors import StoreError
from stores.fitness import Finding
from stores.preflight import preflight

# A store that has not answered by then is told of and left alone: settings are also checked where it can't be reached.
ASK_SECONDS = 5.0


def check(flags: Flags, environ: Mapping[str, str]) -> int:
    try:
        plan, agent = prepare(flags, environ)
        findings = asyncio.run(_of_store(plan))
        refusals = [it for it in findings if it.refuses]
        if refusals:
            raise ConfigRefused(
                [problem("store_unfit", plan.store, f"{it.about}: {it.found}.", it.todo) for it in refusals]
            )
        print(page(plan, agent, tuple(str(it) for it in findings)))
    except ConfigRefused as refused:
        return complain(refused)
    return 0


async def _of_store(plan: Plan) -> list[Finding]:
    """What a worker would find wrong with the store it was given; the embedded one is set up by us."""
    if plan.data_dir is not None:
        return []
    store = open_store(plan.settings.store_url, str(plan.settings.namespace))
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await preflight(store, workers=plan.workers)
    except (StoreError, TimeoutError) as error:
        said = str(error) or f"no answer within {ASK_SECONDS:g} s"
        return [Finding("store", "warn", f"can't be asked from here, so it was not checked: {said}")]
    finally:
        await store.close()
