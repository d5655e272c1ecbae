"""What running a custom action looks like to the dialogue, wherever it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from server.dialogue.outcomes import ActionError, ActionResult
from server.dialogue.sdk import OnChunk, Tracker


@dataclass(slots=True)
class Call:
    """One run of an action."""

    name: str
    tracker: Tracker
    on_chunk: OnChunk | None = None
    first_stream: int = 1


class ActionRunner(Protocol):
    """Runs actions; a failure is a value, only cancellation is raised."""

    @property
    def names(self) -> frozenset[str]:
        """The actions known to be there; empty when only a server knows."""
        ...

    async def run(self, call: Call) -> ActionResult | ActionError: ...

    async def aclose(self) -> None: ...


class NoActions:
    """An assistant without custom actions."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    async def run(self, call: Call) -> ActionResult | ActionError:
        return ActionError("unknown_action", {"action": call.name})

    async def aclose(self) -> None:
        """Nothing is open."""
