"""Questions about the stack: who is running, who is being asked, what belongs together."""

from __future__ import annotations

from server.dialogue.flows import Flow, Step, StepKind
from server.dialogue.state import DialogueState, Frame


def user_frames(stack: list[Frame]) -> list[Frame]:
    return [frame for frame in stack if frame.kind != "pattern"]


def top_user(stack: list[Frame]) -> Frame | None:
    for frame in reversed(stack):
        if frame.kind != "pattern":
            return frame
    return None


def chain_of(stack: list[Frame], frame: Frame) -> list[Frame]:
    """The frame with its callers below and its called children above, the root first."""
    users = user_frames(stack)
    at = users.index(frame)
    start = at
    while start > 0 and users[start].kind == "call":
        start -= 1
    end = at + 1
    while end < len(users) and users[end].kind == "call":
        end += 1
    return users[start:end]


def active_root(stack: list[Frame]) -> Frame | None:
    """The flow an orchestrator knows about: the bottom of the topmost call chain."""
    root: Frame | None = None
    for frame in reversed(stack):
        if frame.kind != "pattern":
            root = frame
            if frame.kind != "call":
                break
    return root


def pending_step(frame: Frame, flows: dict[str, Flow]) -> Step | None:
    """The collect step a frame stands at, asked or not."""
    step = flows[frame.flow].steps.get(frame.step)
    return step if step is not None and step.kind is StepKind.COLLECT else None


def asked_step(state: DialogueState, flows: dict[str, Flow]) -> Step | None:
    """The question that waits for an answer."""
    if not state.stack or state.stack[-1].phase != "asked":
        return None
    return pending_step(state.stack[-1], flows)
