"""The dialogue machine: commands in, then steps until an action has to run or the user has to speak.

It does no I/O. `begin` applies a turn's commands, `step` runs until an effect is due, `resume` takes an action's
result. Everything in between lives in the state, so it can be saved and loaded between any two calls.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import TemplateError

from server.dialogue.commands import Command, Failure
from server.dialogue.conditions import Condition, ConditionError, compile_condition
from server.dialogue.contexts import context_of, interrupted_context
from server.dialogue.defaults import NATIVE_ACTIONS
from server.dialogue.domain import Domain
from server.dialogue.flows import END, Flow, Scope, Step, StepKind
from server.dialogue.outcomes import ActionError, ActionResult, take_result
from server.dialogue.plan import CONTINUE, Plan, make_plan
from server.dialogue.responses import SANDBOX
from server.dialogue.slots import SlotType
from server.dialogue.stack import active_root, chain_of, top_user
from server.dialogue.stage import Broken, Stage
from server.dialogue.state import DialogueState, Frame, TurnFacts

MAX_STEPS = 1000
# Conditions that depend on a frame's context are compiled when they are reached; so many are kept.
MAX_RENDERED = 500

# What an author's condition or template can raise while it is evaluated.
_FAILURES = (Broken, ConditionError, TemplateError, TypeError, ValueError, ArithmeticError, LookupError)
_REFUSALS = {
    SlotType.BOOL: "utter_boolean_slot_rejection",
    SlotType.FLOAT: "utter_float_slot_rejection",
    SlotType.CATEGORICAL: "utter_categorical_slot_rejection",
}


@dataclass(frozen=True, slots=True)
class RunAction:
    """An action has to run; hand its result to `resume`."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The bot listens: the turn is over."""


Effect = RunAction | Wait
WAIT = Wait()


class Engine(Stage):
    """One per loaded assistant; holds no conversation."""

    def __init__(
        self,
        domain: Domain,
        flows: dict[str, Flow],
        scopes: dict[str, Scope],
        *,
        custom: frozenset[str] = frozenset(),
        session_start: bool = False,
        clarify_starts: bool = False,
        rng: random.Random | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        super().__init__(domain, flows, scopes, rng)
        self._custom = custom
        self._session_start = session_start
        self._clarify_starts = clarify_starts
        self._max_steps = max_steps
        self._rendered: dict[str, Condition] = {}
        known = custom | domain.actions
        self._validators = {name: f"validate_{name}" for name in domain.slots if f"validate_{name}" in known}

    def begin(self, state: DialogueState, commands: Sequence[Command], *, text: str | None) -> None:
        """Starts a turn: slots are written at once, frames pushed so that the first command runs first."""
        repaired, earlier = state.turn.repaired, state.turn.events
        facts = state.turn = TurnFacts(text=text, repaired=repaired, queue=list(self.domain.every_turn))
        if repaired:
            facts.events = earlier
        first_contact = not state.began
        if first_contact:
            state.began = True
            facts.events.append({"event": "session_started"})
        if text is not None:
            state.remember("user", text)
            facts.events.append({"event": "user", "text": text})
        try:
            plan = make_plan(state, commands, self.domain, self.flows, self.scopes, clarify_starts=self._clarify_starts)
            state.options = []
            if plan.failure is not None and plan.failure.clears:
                self.fail(state, plan.failure)
                return
            self._apply(state, plan)
        except _FAILURES as error:
            self._fail_for(state, error)
            return
        if first_contact and self._session_start and not any(f.flow == "pattern_session_start" for f in state.stack):
            self.push_pattern(state, "pattern_session_start", {})

    def step(self, state: DialogueState) -> Effect:
        """Runs until an action is due or the bot listens."""
        facts = state.turn
        while facts.pending is None and not facts.waiting:
            facts.steps += 1
            if facts.steps > self._max_steps:
                self.fail(state, Failure("step_limit", {"max_steps": self._max_steps}))
                facts.steps = 0
            try:
                self._advance(state)
            except _FAILURES as error:
                self._fail_for(state, error)
        return WAIT if facts.pending is None else RunAction(facts.pending["action"])

    def resume(self, state: DialogueState, outcome: ActionResult | ActionError) -> None:
        """Takes the result of the action that `step` asked for."""
        facts = state.turn
        pending = facts.pending
        if pending is None:
            raise RuntimeError("no action was asked for")
        facts.pending = None
        name = pending["action"]
        facts.latest_action = name
        if isinstance(outcome, ActionError):
            facts.events.append({"event": "action_execution_failed", "name": name})
            self.fail(state, Failure(outcome.error_type, outcome.info))
            return
        facts.events.append({"event": "action", "name": name})
        try:
            take_result(self, state, outcome, name)
        except _FAILURES as error:
            self._fail_for(state, error)
            return
        frame = next((frame for frame in state.stack if frame.id == pending["frame"]), None)
        if frame is None:
            return
        match pending["purpose"]:
            case "step":
                self._move(state, frame, self.flows[frame.flow].steps[frame.step])
            case "validate":
                frame.phase = "checked"
            case "ask":
                frame.phase = "asked"
                facts.waiting = True

    def cancel(self, state: DialogueState) -> None:
        """The orchestrator's cancel: everything that runs is cancelled, and nothing is said."""
        root = active_root(state.stack)
        facts = state.turn = TurnFacts(waiting=True)
        facts.cancelled = root.flow if root else None
        self.cancel_all(state)
        state.options = []

    def repair(self, state: DialogueState) -> None:
        """The stored stack does not fit the loaded flows: what ran is cancelled, and the user is told."""
        root = active_root(state.stack)
        name = ""
        if root is not None:
            flow = self.flows.get(root.flow)
            name = flow.name if flow else root.flow.replace("_", " ")
        events = state.turn.events
        self.cancel_all(state)
        state.turn = TurnFacts(repaired=True, events=events, cancelled=root.flow if root else None)
        state.options = []
        context = {"canceled_name": name or "what we were doing", "canceled_frames": [], "runs_completed": False}
        context["canceled_flow"] = root.flow if root else None
        self.push_pattern(state, "pattern_cancel_flow", context)

    def _fail_for(self, state: DialogueState, error: Exception) -> None:
        if isinstance(error, Broken):
            self.fail(state, Failure(error.error_type, error.info))
            return
        frame = state.stack[-1] if state.stack else None
        info = {"flow": frame.flow, "step": frame.step} if frame else {}
        self.fail(state, Failure("step_failed", {**info, "exception": type(error).__name__}))

    # -- commands ------------------------------------------------------------------------------------------------

    def _apply(self, state: DialogueState, plan: Plan) -> None:
        stack = state.stack
        carried = [stack.pop()] if state.turn.repaired and stack and stack[-1].flow == "pattern_cancel_flow" else []
        active = active_root(stack)
        before = {name: state.slots.get(name) for name in plan.fills}
        for name, value in plan.fills.items():
            self.write(state, name, value)
        for slot, value in plan.refused:
            self.say(state, _REFUSALS.get(slot.type, "utter_ask_rephrase"), {}, {"value": value})
        if plan.drops_repair:
            while stack and not stack[-1].is_user:
                stack.pop()
        elif plan.drops_completed and stack and stack[-1].flow == "pattern_completed":
            stack.pop()
        if plan.ends_session:
            self.cancel_all(state)
            state.began = False
            state.turn.closed = True
            state.turn.events.append({"event": "session_ended"})
            return
        interrupts = active is not None and not plan.cancels
        if plan.starts and active is not None and interrupts:
            state.turn.events.append({"event": "flow_interrupted", "flow_id": active.flow, "step_id": active.step})
        for target, context in reversed(plan.pushes):
            if target in plan.starts:
                frame = self.push(state, target, "interrupt" if interrupts else "regular")
                scope = self.scopes[target]
                frame.saved = {name: value for name, value in before.items() if name in scope.slots}
            else:
                self.push_pattern(state, target, context_of(self, state, target, context, plan, active))
        if plan.failure is not None:
            context = {"error_type": plan.failure.error_type, "info": plan.failure.info}
            self.push_pattern(state, "pattern_internal_error", context)
        stack.extend(carried)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _advance(self, state: DialogueState) -> None:
        facts, stack = state.turn, state.stack
        if facts.queue:
            self._start_action(state, facts.queue.pop(0), None, "queue")
            return
        if not stack:
            facts.waiting = True
            return
        frame = stack[-1]
        if not frame.started:
            self._activate(state, frame)
        if frame.step == END:
            self._end(state, frame)
            return
        step = self.flows[frame.flow].steps[frame.step]
        match step.kind:
            case StepKind.COLLECT:
                self._collect(state, frame, step)
            case StepKind.ACTION:
                self._start_action(state, self._action_name(step.target, frame), frame, "step")
            case StepKind.SET_SLOTS:
                for name, value in step.assignments:
                    self.write(state, name, value)
                self._move(state, frame, step)
            case StepKind.NOOP:
                self._move(state, frame, step)
            case StepKind.CALL:
                frame.phase = "called"
                self.push(state, step.target, "call")
            case StepKind.LINK:
                self._link(state, frame, step)

    def _activate(self, state: DialogueState, frame: Frame) -> None:
        frame.started = True
        facts = state.turn
        facts.events.append({"event": "flow_started", "flow_id": frame.flow})
        if frame.kind == "pattern":
            facts.ran[frame.flow] = frame.context
            return
        if frame.kind == "call":
            return
        if "pattern_cancel_flow" in facts.ran:
            facts.started_after_cancel = True
        slots = state.slots
        for name in self.scopes[frame.flow].slots:
            frame.saved.setdefault(name, slots.get(name))

    def _collect(self, state: DialogueState, frame: Frame, step: Step) -> None:
        name, slots = step.target, state.slots
        if not frame.phase:
            frame.phase, frame.slot = "entered", name
            if step.ask_first:
                self.write(state, name, None)
        if slots.get(name) is not None and frame.phase != "checked":
            refusal = self._refusal(state, frame, step)
            if refusal is not None:
                self.say(state, refusal, frame.context)
                self.write(state, name, None)
            elif name in self._validators:
                self._request(state, self._validators[name], frame, "validate")
                return
        if slots.get(name) is not None:
            self._move(state, frame, step)
            return
        facts = state.turn
        if facts.quiet:
            facts.quiet = False
        elif frame.refill and self.domain.slots[name].refill_utter:
            self.say(state, str(self.domain.slots[name].refill_utter), frame.context)
        elif step.question_is_action:
            self._request(state, step.question, frame, "ask")
            return
        else:
            self.say(state, step.question, frame.context)
        frame.refill = False
        frame.phase = "asked"
        facts.waiting = True

    def _refusal(self, state: DialogueState, frame: Frame, step: Step) -> str | None:
        for rejection in self.domain.slots[step.target].rejections:
            if rejection.condition.holds(state.slots, frame.context):
                frame.refill = True
                return rejection.utter
        for rejection in step.rejections:
            if rejection.condition.holds(state.slots, frame.context):
                return rejection.utter
        return None

    def _move(self, state: DialogueState, frame: Frame, step: Step) -> None:
        """Follows `next`; the first branch that holds wins."""
        target = step.next
        if not isinstance(target, str):
            target = next((b.target for b in target if self._holds(b.condition, state, frame)), END)
        frame.step = target
        frame.phase = frame.slot = ""
        frame.refill = False

    def _holds(self, test: Condition | str | None, state: DialogueState, frame: Frame) -> bool:
        if test is None:
            return True
        if isinstance(test, str):
            text = SANDBOX.from_string(test).render(context=frame.context)
            if len(self._rendered) > MAX_RENDERED:
                self._rendered.clear()
            test = self._rendered.get(text) or self._rendered.setdefault(text, compile_condition(text))
        return test.holds(state.slots, frame.context)

    def _link(self, state: DialogueState, frame: Frame, step: Step) -> None:
        target = step.target
        state.stack.pop()
        if frame.is_user:
            self._complete(state, frame)
        else:
            self.reset(state, frame.flow)
        if self.flows[target].is_pattern:
            self.push_pattern(state, target, {})
        else:
            self.push(state, target, "link")

    def _end(self, state: DialogueState, frame: Frame) -> None:
        stack, facts = state.stack, state.turn
        stack.pop()
        if frame.kind == "pattern":
            closing = frame.flow == "pattern_completed" and state.slots.get(CONTINUE) is False
            self.reset(state, frame.flow)
            facts.closed = facts.closed or closing
            facts.events.append({"event": "flow_completed", "flow_id": frame.flow, "step_id": END})
            if frame.flow == "pattern_clarification":
                facts.quiet = bool(stack)
            elif frame.flow == "pattern_cancel_flow" or frame.context.get("declined"):
                self._go_on(state, bool(frame.context.get("runs_completed", True)))
        elif frame.kind == "call":
            facts.events.append({"event": "flow_completed", "flow_id": frame.flow, "step_id": END})
            caller = stack[-1]
            self._move(state, caller, self.flows[caller.flow].steps[caller.step])
        else:
            self._complete(state, frame)
            self._go_on(state, self.flows[frame.flow].runs_completed)

    def _complete(self, state: DialogueState, frame: Frame) -> None:
        facts = state.turn
        facts.events.append({"event": "flow_completed", "flow_id": frame.flow, "step_id": END})
        facts.completed.append(frame.flow)
        if not any(other.is_user and other.started for other in state.stack):
            for name in self.scopes[frame.flow].persisted:
                value = state.slots.get(name)
                if value is not None:
                    facts.persisted[name] = value
        self.reset(state, frame.flow)

    def _go_on(self, state: DialogueState, runs_completed: bool) -> None:
        """After a flow ended or was cancelled: ask what else, or whether to resume what was interrupted."""
        below = top_user(state.stack)
        if below is None:
            if runs_completed and not state.stack:
                self.push_pattern(state, "pattern_completed", {"previous_flow_name": ""})
        elif below.started and state.stack[-1] is below:
            root = chain_of(state.stack, below)[0]
            self.push_pattern(state, "pattern_continue_interrupted", interrupted_context(self.flows[root.flow], root))

    # -- actions -------------------------------------------------------------------------------------------------

    def _action_name(self, name: str, frame: Frame) -> str:
        if "{{" not in name:
            return name
        return SANDBOX.from_string(name).render(context=frame.context).strip()

    def _start_action(self, state: DialogueState, name: str, frame: Frame | None, purpose: str) -> None:
        if name.startswith("utter_") and name not in self._custom:
            self.say(state, name, frame.context if frame else {})
        elif name in NATIVE_ACTIONS and name not in self._custom:
            NATIVE_ACTIONS[name](self, state, frame)
        elif name in self._custom or name in self.domain.actions:
            self._request(state, name, frame, purpose)
            return
        else:
            raise Broken("unknown_action", action=name)
        state.turn.latest_action = name
        if frame is not None and frame in state.stack:
            self._move(state, frame, self.flows[frame.flow].steps[frame.step])

    def _request(self, state: DialogueState, name: str, frame: Frame | None, purpose: str) -> None:
        state.turn.pending = {"action": name, "purpose": purpose, "frame": frame.id if frame else 0}
