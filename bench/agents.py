"""The agent that nonstick runs in the benchmark; the peers' agents do the same."""

from __future__ import annotations

import asyncio
import time

from server.agents import Agent, Outcome, Skill, Turn, completed


class Echo(Agent):
    """
    chunks N        N pieces of one artifact, as fast as they are taken
    pace N MS       N pieces, MS milliseconds apart, each with the time it was made
    hold SECONDS    says that it works, then nothing for so long
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
        return completed(f"echo: {turn.text}")
