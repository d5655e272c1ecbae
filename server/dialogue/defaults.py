"""The actions the engine brings along: pure changes of stack and slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from server.dialogue.flows import StepKind
from server.dialogue.stack import chain_of, top_user
from server.dialogue.stage import Stage
from server.dialogue.state import DialogueState, Frame

NativeAction = Callable[[Stage, DialogueState, Frame | None], None]


def _cancel_flow(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    if frame is None:
        return
    wanted = set(frame.context.get("canceled_frames", ()))
    chain = [other for other in state.stack if other.id in wanted]
    if chain:
        stage.cancel_chain(state, chain)
    state.turn.cancelled = frame.context.get("canceled_flow") or state.turn.cancelled
    state.turn.started_after_cancel = False


def _cancel_interrupted(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    if frame is None:
        return
    root = next((other for other in state.stack if other.id == frame.context.get("frame")), None)
    if root is not None:
        stage.cancel_chain(state, chain_of(state.stack, root))
    frame.context["declined"] = True


def _continue_interrupted(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    below = top_user(state.stack)
    if below is not None:
        state.turn.events.append({"event": "flow_resumed", "flow_id": below.flow, "step_id": below.step})


def _correct(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    """Writes the new values and goes back to the earliest question among them."""
    if frame is None:
        return
    root = next((other for other in state.stack if other.id == frame.context.get("frame")), None)
    if root is None:
        return
    corrected: dict[str, Any] = frame.context["corrected_slots"]
    for name, value in corrected.items():
        stage.write(state, name, value)
    chain = chain_of(state.stack, root)
    places = [place for name in corrected if (place := _place(stage, chain, name)) is not None]
    if not places:
        return
    level, _, step_id = min(places)
    gone = {other.id for other in chain[level + 1 :]}
    state.stack = [other for other in state.stack if other.id not in gone]
    target = chain[level]
    target.step, target.phase, target.slot, target.refill = step_id, "", "", False


def _place(stage: Stage, chain: list[Frame], name: str) -> tuple[int, int, str] | None:
    """(level in the call chain, position, step) of the question for a slot; None when it still lies ahead."""
    for level, frame in enumerate(chain):
        flow = stage.flows[frame.flow]
        current = flow.steps[frame.step].index if frame.step in flow.steps else len(flow.steps)
        for step in sorted(flow.steps.values(), key=lambda step: step.index):
            asks = step.kind is StepKind.COLLECT and step.target == name
            calls = step.kind is StepKind.CALL and name in stage.scopes[step.target].collects
            if not asks and not calls:
                continue
            if step.index > current:
                return None
            if calls and step.index == current and level + 1 < len(chain):
                break  # the child is still running: look there
            return level, step.index, step.id
        else:
            return None
    return None


def _clarify(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    if frame is not None:
        state.options = list(frame.context.get("options", ()))


def _repeat(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    below = state.stack[-2] if len(state.stack) > 1 else None
    if below is not None and below.is_user and below.phase == "asked":
        return  # the question is asked again anyway
    state.turn.messages.extend(state.said)
    state.turn.quiet = below is not None and bool(state.said)


def _clean_stack(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    for other in [other for other in reversed(state.stack) if other.is_user and other.kind != "call"]:
        stage.cancel_chain(state, chain_of(state.stack, other))
    state.stack = [other for other in state.stack if other is frame]


def _restart(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    stage.restart(state, frame)


def _nothing(stage: Stage, state: DialogueState, frame: Frame | None) -> None:
    """An action that only matters when a project replaces it."""


NATIVE_ACTIONS: dict[str, NativeAction] = {
    "action_listen": _nothing,
    "action_cancel_flow": _cancel_flow,
    "action_correct_flow_slot": _correct,
    "action_clarify_flows": _clarify,
    "action_continue_interrupted_flow": _continue_interrupted,
    "action_cancel_interrupted_flows": _cancel_interrupted,
    "action_clean_stack": _clean_stack,
    "action_restart": _restart,
    "action_session_start": _nothing,
    "action_repeat_bot_messages": _repeat,
    "action_handoff_metric": _nothing,
    "action_reset_routing": _nothing,
}
