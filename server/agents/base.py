"""The agent: one class with one method that must be written.

    class Echo(Agent):
        skills = [Skill(id="echo", name="Echo", description="Says it again.")]

        async def run(self, turn: Turn) -> Outcome:
            return completed(f"echo: {turn.text}")

The contract of `run`:

- It is called once for each accepted message, on any worker, one turn of a context at a time. What must survive to the
  next turn goes into `turn.session`; an instance serves many contexts at once and dies with its worker.
- What it returns ends the turn. What it raises ends it as `failed`, and leaves the session as it was.
- It can be cancelled at any await. Clean-up belongs into `finally` and must be short: after `cancel_wait_seconds` the
  task is closed without it.
- If its worker dies, the turn ends as `failed` with `error_type: worker_lost`, unless the agent says `replay_safe`:
  then it runs again elsewhere, with `turn.attempt` counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from server.agents.outcome import Outcome
from server.agents.turn import Turn
from server.protocol.model import JsonObject, Skill


class Agent:
    """Base class of everything that answers."""

    name: str | None = None
    """Shown on the card; the class name when absent."""
    description: str | None = None
    """Shown on the card where endpoints.yml gives none; the class's docstring when absent."""
    version: str = "1.0.0"
    skills: Sequence[Skill] = ()
    input_modes: Sequence[str] = ("text/plain", "application/json")
    output_modes: Sequence[str] = ("text/plain", "application/json")

    ready: bool = True
    """False while there is nothing to offer yet; the card then shows no skills."""

    supersedes: ClassVar[bool] = False
    """A new message without a taskId closes the context's earlier waiting task as completed."""
    replay_safe: ClassVar[bool] = False
    """A turn whose worker died may be run again from its beginning."""
    max_attempts: ClassVar[int] = 3
    """How often a replay-safe turn is tried before it ends as failed."""
    threaded: ClassVar[bool] = False
    """`run` computes for long without an await: each turn gets a thread with a loop of its own, so that the worker's
    loop stays free. What `run` uses must then be made for threads; `on_cancel`, `start` and `stop` stay on the worker's
    loop."""
    direct_replies: ClassVar[bool] = False
    """`run` may return `reply(...)`; streams then hold back the task until the agent showed that there is one."""

    fingerprint: str = ""
    """Which version of its content this agent serves, where a fleet may serve two at once."""

    def elsewhere(self, stored: str) -> str:
        """The fingerprint of a version that can go on with this stored session better than this one; '' where none."""
        return ""

    async def start(self) -> None:
        """Called once in each worker, before its first turn."""

    async def stop(self) -> None:
        """Called once in each worker, after its last turn."""

    async def reload(self) -> None:
        """Called in every worker after `nonstick reload`. What it raises is told to whoever asked; the agent goes on
        as it was."""

    def about(self) -> JsonObject:
        """More about this agent for `GET /status`."""
        return {}

    async def run(self, turn: Turn) -> Outcome:
        """Answers one message."""
        raise TypeError(f"{type(self).__name__} must define 'async def run(self, turn)'")

    async def on_cancel(self, turn: Turn) -> Outcome | None:
        """Called when a task is canceled, waiting or running, with the session as the turn found it. May change the
        session, and may return an outcome whose message and data go with the canceled task."""
        return None
