"""What a pattern knows about the dialogue it repairs: the properties its steps and texts reach as `context.*`."""

from __future__ import annotations

from typing import Any

from server.dialogue.flows import Flow
from server.dialogue.plan import Plan
from server.dialogue.stack import chain_of
from server.dialogue.stage import Stage
from server.dialogue.state import DialogueState, Frame


def context_of(
    stage: Stage, state: DialogueState, pattern: str, context: dict[str, Any], plan: Plan, active: Frame | None
) -> dict[str, Any]:
    """The properties a pattern starts with."""
    match pattern:
        case "pattern_cancel_flow" if active is not None:
            flow = stage.flows[active.flow]
            return {
                "canceled_name": flow.name,
                "canceled_flow": flow.id,
                "canceled_frames": [frame.id for frame in chain_of(state.stack, active)],
                "runs_completed": flow.runs_completed,
            }
        case "pattern_correction" if active is not None:
            asked_first = stage.scopes[active.flow].asked_first
            values = plan.corrections
            return {
                "corrected_slots": values,
                "new_slot_values": list(values.values()),
                "is_reset_only": all(value is None or name in asked_first for name, value in values.items()),
                "reset_flow_id": active.flow,
                "reset_step_id": active.step,
                "frame": active.id,
            }
        case "pattern_clarification":
            names = [stage.flows[option].name for option in context["options"]]
            listed = ", ".join(names[:-1]) + (" or " if len(names) > 1 else "") + names[-1] if names else ""
            return {"names": names, "clarification_options": listed, "options": context["options"]}
        case _:
            return context


def interrupted_context(flow: Flow, root: Frame) -> dict[str, Any]:
    """What the question about an interrupted flow may mention."""
    return {
        "interrupted_flow_names": [flow.name],
        "interrupted_flow_ids": [flow.id],
        "interrupted_flow_options": flow.name,
        "multiple_flows_interrupted": False,
        "previous_flow_name": "",
        "frame": root.id,
        "runs_completed": flow.runs_completed,
    }
