"""TaskStateMapper: what an A2A task shows of the dialogue after a turn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from server.dialogue.domain import Domain
from server.dialogue.stack import active_root, top_user
from server.dialogue.state import DialogueState


class TaskState(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class TaskStateMapper:
    """Follows the contract's order of precedence; `repair` is include_conversation_repair."""

    domain: Domain
    repair: bool = True

    def state(self, state: DialogueState, *, cancelled: bool = False) -> TaskState:
        """A pattern counts as active while it is on the stack, or when it ran this turn and no flow is left.

        Patterns usually end within the turn, so the stack alone would never show them.
        """
        if cancelled:
            return TaskState.CANCELED
        facts = state.turn
        idle = top_user(state.stack) is None
        on_stack = {frame.flow for frame in state.stack if frame.kind == "pattern"}
        active = on_stack | facts.ran.keys() if idle else on_stack
        waits_for_input = TaskState.INPUT_REQUIRED if not idle or self.repair else TaskState.COMPLETED
        if "pattern_cannot_handle" in active and not facts.completed:
            return TaskState.REJECTED
        if "pattern_internal_error" in active:
            return TaskState.FAILED
        if "pattern_cancel_flow" in active and not facts.started_after_cancel:
            return TaskState.CANCELED
        if facts.completed and idle and facts.waiting:
            return TaskState.COMPLETED
        if idle and "pattern_completed" in on_stack:
            return waits_for_input
        if idle and facts.closed:
            return TaskState.COMPLETED
        return waits_for_input if facts.waiting else TaskState.WORKING

    def data(self, state: DialogueState, task_state: TaskState) -> dict[str, Any]:
        """The structured part that goes with the state."""
        facts = state.turn
        root = active_root(state.stack)
        slots = state.slots
        data: dict[str, Any] = {
            "state": task_state.value,
            "active_flow": root.flow if root else None,
            "slots": {name: slots[name] for name in self.domain.exported if name in slots},
        }
        match task_state:
            case TaskState.COMPLETED:
                data["persisted_slots"] = dict(facts.persisted)
            case TaskState.REJECTED:
                data["reason"] = _context(state, "pattern_cannot_handle").get("reason") or "cannot_handle"
            case TaskState.FAILED:
                context = _context(state, "pattern_internal_error")
                data["error_type"] = context.get("error_type")
                data["error_info"] = context.get("info") or {}
            case TaskState.CANCELED:
                data["canceled_flow"] = facts.cancelled
                if facts.repaired:
                    data["reason"] = "assistant_changed"
            case _:
                pass
        return data


def _context(state: DialogueState, pattern: str) -> dict[str, Any]:
    for frame in reversed(state.stack):
        if frame.flow == pattern:
            return frame.context
    return state.turn.ran.get(pattern, {})
