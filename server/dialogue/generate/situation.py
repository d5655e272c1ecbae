"""What a generator may know when it reads a message: the dialogue, the open question and the flows that can start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from server.dialogue.commands import Command
from server.dialogue.domain import Domain
from server.dialogue.flows import Flow, Scope, Step
from server.dialogue.plan import may_start
from server.dialogue.stack import active_root, asked_step, pending_step, top_user
from server.dialogue.state import DialogueState, Frame


@dataclass(slots=True)
class Situation:
    state: DialogueState
    slots: dict[str, Any]  # with the orchestrator's values of this turn, which guards see
    domain: Domain
    flows: dict[str, Flow]
    scopes: dict[str, Scope]
    asked: Step | None
    active: Frame | None
    top: str
    pending: Step | None  # the interrupted flow's own question, while "shall we go on?" waits
    running: set[str]
    _open: dict[str, bool] = field(default_factory=dict)

    def is_open(self, flow_id: str) -> bool:
        """The guard holds; asked often, so remembered for the message."""
        known = self._open.get(flow_id)
        if known is None:
            known = self._open[flow_id] = may_start(self.flows.get(flow_id), self.slots)
        return known

    def can_start(self, flow_id: str) -> bool:
        return flow_id not in self.running and self.is_open(flow_id)


class Generator(Protocol):
    """Turns a message into commands; `flow` is set when the caller already said which flow it wants."""

    async def generate(self, situation: Situation, text: str, flow: str | None = None) -> list[Command]: ...

    async def aclose(self) -> None: ...


def situation_of(
    state: DialogueState,
    seeds: dict[str, Any],
    domain: Domain,
    flows: dict[str, Flow],
    scopes: dict[str, Scope],
) -> Situation:
    top = state.stack[-1].flow if state.stack else ""
    pending: Step | None = None
    if top == "pattern_continue_interrupted":
        interrupted = top_user(state.stack)
        pending = pending_step(interrupted, flows) if interrupted else None
    return Situation(
        state=state,
        slots={**state.slots, **seeds} if seeds else state.slots,
        domain=domain,
        flows=flows,
        scopes=scopes,
        asked=asked_step(state, flows),
        active=active_root(state.stack),
        top=top,
        pending=pending,
        running={frame.flow for frame in state.stack if frame.kind != "pattern"},
    )
