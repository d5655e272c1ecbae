"""What answers in a chaos run: it does what its message says, and writes down outside the system what it did.

The ledger is a file in a folder that only agents write to: one line of JSON per thing that happened, appended in one
write, so that the lines of many processes never mix. Times are of the machine's monotonic clock, which they share.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from server.agents import Agent, Outcome, Skill, Turn, completed, input_required

LEDGER = "ledger"


@dataclass(frozen=True, slots=True)
class Run:
    """One line of the ledger."""

    what: str
    message: str
    context: str
    task: str
    fence: int
    attempt: int
    pid: int
    at: float


class ChaosAgent(Agent):
    """Counts, naps, streams and asks, as told."""

    name = "chaos"
    skills = (Skill(id="obey", name="Obey", description="Does what it is told.", tags=("chaos",)),)

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER

    async def run(self, turn: Turn) -> Outcome:
        self._note("begin", turn)
        heard: list[str] = turn.session.setdefault("heard", [])
        heard.append(turn.message_id)
        verb, number = turn.text.split()
        try:
            if verb == "nap":
                await asyncio.sleep(int(number) / 1000)
            elif verb == "stream":
                for piece in range(int(number)):
                    await turn.artifact(f"{piece} ", name="numbers", last_chunk=piece == int(number) - 1)
                    await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self._note("stopped", turn)
            raise
        self._note("end", turn)
        data = {"heard": heard}
        return input_required("what?", data=data) if verb == "ask" else completed("done", data=data)

    def _note(self, what: str, turn: Turn) -> None:
        run = [what, turn.message_id, turn.context_id, turn.task_id, turn.fence, turn.attempt, os.getpid()]
        raw = json.dumps([*run, time.monotonic()]).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, raw)
        finally:
            os.close(descriptor)


def read_ledger(folder: Path) -> list[Run]:
    path = folder / LEDGER
    return [Run(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
