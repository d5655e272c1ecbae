"""Agents that do what their messages say, and write down outside the system what they did.

A folder connects a test with its agents, in this process or in others: a file in it opens the gate of that name, and
the file `runs` gets one line of JSON for each thing that happened, appended in one write, so that runs can be counted
across processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from server.agents import (
    Agent,
    Outcome,
    Skill,
    Turn,
    auth_required,
    completed,
    failed,
    input_required,
    rejected,
    reply,
)
from server.agents.outcome import canceled

FOLDER_VARIABLE = "NONSTICK_TEST_FOLDER"


class Ledger:
    """The folder between a test and its agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, what: str, turn: Turn) -> None:
        line = {
            "what": what,
            "text": turn.text,
            "message": turn.message_id,
            "context": turn.context_id,
            "task": turn.task_id,
            "fence": turn.fence,
            "attempt": turn.attempt,
            "pid": os.getpid(),
        }
        raw = json.dumps(line).encode() + b"\n"
        descriptor = os.open(self.folder / "runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, raw)
        finally:
            os.close(descriptor)

    def notes(self, what: str | None = None, **like: Any) -> list[dict[str, Any]]:
        """What happened, in order; `like` are members a line must have."""
        path = self.folder / "runs"
        if not path.exists():
            return []
        # Another process may be in the middle of its line.
        whole = path.read_text().rpartition("\n")[0]
        lines: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        wanted = {**like, **({"what": what} if what else {})}
        return [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def close(self, gate: str) -> None:
        (self.folder / gate).unlink(missing_ok=True)

    def is_open(self, gate: str) -> bool:
        return (self.folder / gate).exists()

    async def pass_gate(self, gate: str) -> None:
        """Waits for a gate; the agent's own work, so it has no bound but the turn's."""
        while not self.is_open(gate):  # noqa: ASYNC110 - another process opens it; there is nothing to be woken by
            await asyncio.sleep(0.01)


class Puppet(Agent):
    """Does what its message says: the first word is what to do, the others are how."""

    name = "Puppet"
    skills = (Skill(id="obey", name="Obey", description="Does what it is told.", tags=("test",)),)

    def __init__(self, folder: Path | None = None) -> None:
        self.ledger = Ledger(folder or Path(os.environ[FOLDER_VARIABLE]))

    async def run(self, turn: Turn) -> Outcome:
        self.ledger.note("start", turn)
        turn.session.setdefault("heard", []).append(turn.text)
        verb, *how = turn.text.split() or ["echo"]
        do: Callable[[Turn, list[str]], Awaitable[Outcome]] = getattr(self, f"do_{verb}", self.do_echo)
        try:
            outcome = await do(turn, how)
        except asyncio.CancelledError:
            self.ledger.note("stopped", turn)
            raise
        self.ledger.note("end", turn)
        return outcome

    async def on_cancel(self, turn: Turn) -> Outcome | None:
        self.ledger.note("on_cancel", turn)
        turn.session.setdefault("heard", []).append("(canceled)")
        return canceled("let go")

    async def do_echo(self, turn: Turn, how: list[str]) -> Outcome:
        return completed(f"echo: {turn.text}", data={"heard": turn.session["heard"], "pid": os.getpid()})

    async def do_hold(self, turn: Turn, how: list[str]) -> Outcome:
        """hold GATE: says nothing until the gate opens."""
        await self.ledger.pass_gate(how[0])
        return await self.do_echo(turn, how)

    async def do_work(self, turn: Turn, how: list[str]) -> Outcome:
        """work GATE: shows that it works, then waits for the gate."""
        await turn.working("at it")
        await self.ledger.pass_gate(how[0])
        return await self.do_echo(turn, how)

    async def do_stream(self, turn: Turn, how: list[str]) -> Outcome:
        """stream N [GATE]: N pieces of one artifact; with a gate, it waits there after the first half."""
        count = int(how[0])
        for number in range(count):
            if len(how) > 1 and number == count // 2:
                await self.ledger.pass_gate(how[1])
            await turn.artifact(f"{number} ", name="numbers", last_chunk=number == count - 1)
            await asyncio.sleep(0)  # lets a batch leave, as an agent that waits for a model does
        return await self.do_echo(turn, how)

    async def do_block(self, turn: Turn, how: list[str]) -> Outcome:
        """block GATE: waits for the gate without ever letting go of its loop."""
        while not self.ledger.is_open(how[0]):
            time.sleep(0.01)  # noqa: ASYNC251 - the mistake that the test is about
        return await self.do_echo(turn, how)

    async def do_nap(self, turn: Turn, how: list[str]) -> Outcome:
        """nap MS: work that takes so long."""
        await asyncio.sleep(int(how[0]) / 1000)
        return await self.do_echo(turn, how)

    async def do_pace(self, turn: Turn, how: list[str]) -> Outcome:
        """pace N: N pieces of one artifact, with a moment between, so that each leaves by itself."""
        for number in range(int(how[0])):
            await turn.artifact(f"{number} ", name="numbers", last_chunk=number == int(how[0]) - 1)
            await asyncio.sleep(0.05)
        return await self.do_echo(turn, how)

    async def do_steps(self, turn: Turn, how: list[str]) -> Outcome:
        """steps N PREFIX: N pieces of one artifact, each behind a gate of its own, PREFIX-0 and so on."""
        for number in range(int(how[0])):
            await self.ledger.pass_gate(f"{how[1]}-{number}")
            await turn.artifact(f"{number} ", name="numbers", last_chunk=number == int(how[0]) - 1)
        return await self.do_echo(turn, how)

    async def do_burst(self, turn: Turn, how: list[str]) -> Outcome:
        """burst N [SIZE]: N pieces of at least so many characters, without ever letting go."""
        size = int(how[1]) if len(how) > 1 else 0
        for number in range(int(how[0])):
            piece = f"{number} ".ljust(size, ".")
            await turn.artifact(piece, name="numbers", last_chunk=number == int(how[0]) - 1)
        return await self.do_echo(turn, how)

    async def do_ask(self, turn: Turn, how: list[str]) -> Outcome:
        return input_required("what?", data={"heard": turn.session["heard"]})

    async def do_login(self, turn: Turn, how: list[str]) -> Outcome:
        return auth_required("who are you?")

    async def do_reject(self, turn: Turn, how: list[str]) -> Outcome:
        return rejected("not my job")

    async def do_give_up(self, turn: Turn, how: list[str]) -> Outcome:
        return failed("no luck", error_type="no_luck", error_info="tried twice")

    async def do_raise(self, turn: Turn, how: list[str]) -> Outcome:
        raise ValueError("as told")

    async def do_reply(self, turn: Turn, how: list[str]) -> Outcome:
        if how:
            await self.ledger.pass_gate(how[0])
        return reply("straight back", data={"heard": turn.session["heard"]})

    async def do_hoard(self, turn: Turn, how: list[str]) -> Outcome:
        """hoard N: puts N characters into the session."""
        turn.session["hoard"] = "x" * int(how[0])
        return await self.do_echo(turn, how)

    async def do_linger(self, turn: Turn, how: list[str]) -> Outcome:
        """linger WORK CLEANUP: when it is cancelled, its clean-up takes until the second gate opens."""
        try:
            await self.ledger.pass_gate(how[0])
        finally:
            self.ledger.note("cleaning", turn)
            await self.ledger.pass_gate(how[1])
            self.ledger.note("cleaned", turn)
        return await self.do_echo(turn, how)

    async def do_defy(self, turn: Turn, how: list[str]) -> Outcome:
        """defy GATE: swallows every cancel until the gate opens, then tries to write."""
        while not self.ledger.is_open(how[0]):
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.ledger.note("swallowed", turn)
        self.ledger.note("writing late", turn)
        await turn.artifact("too late")
        return completed("too late")


class Superseding(Puppet):
    supersedes: ClassVar[bool] = True


class ReplaySafe(Puppet):
    replay_safe: ClassVar[bool] = True


class Twice(ReplaySafe):
    max_attempts: ClassVar[int] = 2


class Threaded(Puppet):
    threaded: ClassVar[bool] = True


class Direct(Puppet):
    direct_replies: ClassVar[bool] = True


class Outdated(Puppet):
    """Would rather leave every turn to a worker of another version."""

    def elsewhere(self, stored: str) -> str:
        return "another version"


KINDS = (Puppet, Superseding, ReplaySafe, Twice, Threaded, Direct, Outdated)
AGENTS: dict[str, type[Puppet]] = {kind.__name__: kind for kind in KINDS}
