"""The engine's hold on a dialogue: writing slots, saying responses, pushing and cancelling frames."""

from __future__ import annotations

import random
from typing import Any

from server.dialogue.commands import ERROR_DEFAULT, Failure
from server.dialogue.domain import Domain
from server.dialogue.flows import Flow, Scope
from server.dialogue.responses import say
from server.dialogue.stack import chain_of, user_frames
from server.dialogue.state import DialogueState, Frame


class Broken(Exception):
    """A step can't be carried out."""

    def __init__(self, error_type: str, **info: Any) -> None:
        super().__init__(error_type)
        self.error_type = error_type
        self.info = info


class Stage:
    """One per loaded assistant; holds no conversation."""

    def __init__(
        self, domain: Domain, flows: dict[str, Flow], scopes: dict[str, Scope], rng: random.Random | None
    ) -> None:
        self.domain = domain
        self.flows = flows
        self.scopes = scopes
        self._rng = rng

    def restart(self, state: DialogueState, keep: Frame | None) -> None:
        state.slots = dict(self.domain.initial)
        state.stack = [keep] if keep is not None else []
        state.history = []
        state.turn.events.append({"event": "restart"})

    def write(self, state: DialogueState, name: str, value: Any) -> None:
        if value is None and name not in state.slots:
            return
        state.set(name, value)
        state.turn.events.append({"event": "slot", "name": name, "value": value})

    def reset(self, state: DialogueState, flow_id: str) -> None:
        for name in self.scopes[flow_id].resets:
            self.write(state, name, self.domain.slots[name].initial)

    def say(
        self,
        state: DialogueState,
        key: str,
        context: dict[str, Any],
        variables: dict[str, Any] | None = None,
        extras: dict[str, Any] | None = None,
    ) -> None:
        response = self.domain.responses.get(key)
        message = None if response is None else say(response, state.slots, context, variables or {}, self._rng)
        if message is None:
            raise Broken("no_response", response=key)
        if extras:
            message.update(extras)
        state.turn.messages.append(message)

    def push(self, state: DialogueState, flow_id: str, kind: str) -> Frame:
        state.frames += 1
        frame = Frame(state.frames, flow_id, self.flows[flow_id].first, kind)
        state.stack.append(frame)
        return frame

    def push_pattern(self, state: DialogueState, flow_id: str, context: dict[str, Any]) -> None:
        self.push(state, flow_id, "pattern").context = context

    def cancel_all(self, state: DialogueState) -> None:
        for frame in reversed(user_frames(state.stack)):
            if frame.kind != "call":
                self.cancel_chain(state, chain_of(state.stack, frame))
        state.stack.clear()

    def fail(self, state: DialogueState, failure: Failure) -> None:
        """The running flows can't go on: they are cancelled and the user gets an apology."""
        facts = state.turn
        facts.pending = None
        facts.queue.clear()
        facts.waiting = facts.quiet = False
        broken_apology = any(frame.flow == "pattern_internal_error" for frame in state.stack)
        self.cancel_all(state)
        context = {"error_type": failure.error_type or ERROR_DEFAULT, "info": failure.info}
        facts.events.append({"event": "error", **context})
        if broken_apology:
            # the apology itself failed: end here rather than apologise for ever
            facts.ran["pattern_internal_error"] = context
            facts.waiting = True
            return
        self.push_pattern(state, "pattern_internal_error", context)

    def cancel_chain(self, state: DialogueState, chain: list[Frame]) -> None:
        """Takes a flow with its called children off the stack and gives its slots their values from before the run."""
        gone = {frame.id for frame in chain}
        for frame in reversed(chain):
            state.turn.events.append({"event": "flow_cancelled", "flow_id": frame.flow, "step_id": frame.step})
        state.stack = [frame for frame in state.stack if frame.id not in gone]
        for name, value in chain[0].saved.items():
            if state.slots.get(name) != value and name in self.domain.slots:
                self.write(state, name, value)
