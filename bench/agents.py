"""The agent that nonstick runs in the benchmark; the peers' agents do the same, as far as they are asked to."""

from __future__ import annotations

import asyncio
import time

from server.agents import Agent, Outcome, Skill, Turn, completed, input_required
from server.agents.outcome import canceled


class Echo(Agent):
    """
    chunks N        N pieces of one artifact, as fast as they are taken
    pace N MS       N pieces, MS milliseconds apart, each with the time it was made
    hold SECONDS    says that it works, then nothing for so long; when it is cancelled, it tells when that was
    ask             asks back, so that its context stays live
    anything else   says it again
    """

    name = "Bench"
    skills = (Skill(id="echo", name="Echo", description="Says it again.", tags=("bench",)),)

    async def run(self, turn: Turn) -> Outcome:
        match turn.text.split():
            case ["chunks", count]:
                for number in range(int(count)):
                    await turn.artifact(f"chunk {number} ", name="chunks")
            case ["pace", count, milliseconds]:
                for _ in range(int(count)):
                    await turn.artifact(f"{time.monotonic_ns()} ", name="chunks")
                    await asyncio.sleep(int(milliseconds) / 1000)
            case ["hold", seconds]:
                await turn.working("at it")
                await asyncio.sleep(float(seconds))
            case ["ask"]:
                return input_required("What?")
        return completed(f"echo: {turn.text}")

    async def on_cancel(self, turn: Turn) -> Outcome | None:
        return canceled(str(time.monotonic_ns()))
