"""Turns the YAML of flows into steps by id, reporting every mistake on the way."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from server.dialogue.conditions import Condition
from server.dialogue.domain import Domain, condition, rejections
from server.dialogue.flows import END, PATTERN_PREFIX, Branch, Flow, Step, StepKind
from server.dialogue.problems import Reporter
from server.dialogue.slots import InvalidValue, SlotType, coerce

_FLOW_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_FLOW_KEYS = frozenset(
    {
        "name", "description", "if", "nlu_trigger", "always_include_in_prompt", "run_pattern_completed",
        "persisted_slots", "steps", "translation", "metadata",
    }
)  # fmt: skip
_COMMON_KEYS = frozenset({"id", "next", "description", "metadata"})
_KEYS: dict[StepKind, frozenset[str]] = {
    StepKind.ACTION: frozenset(),
    StepKind.COLLECT: frozenset(
        {
            "ask_before_filling", "reset_after_flow_ends", "utter", "rejections", "force_slot_filling",
            "silence_timeout", "dtmf",
        }
    ),
    StepKind.SET_SLOTS: frozenset(),
    StepKind.LINK: frozenset(),
    StepKind.CALL: frozenset({"mcp_server", "mapping", "exit_if"}),
    StepKind.NOOP: frozenset(),
}  # fmt: skip
_CHOICES = "action, collect, set_slots, link, call or noop"


def parse_flow(flow_id: str, spec: Any, domain: Domain, report: Reporter) -> Flow | None:
    """One flow; None when too little of it can be read to go on checking."""
    here = report.at(flow=flow_id, line=getattr(spec, "line", 0))
    if _FLOW_ID.fullmatch(flow_id) is None:
        here.error(f"'{flow_id}' is not a flow id.", "Use letters, digits, '_' and '-', not starting with '-'.")
    if not isinstance(spec, dict):
        here.error("A flow must be a mapping.", "Give it a 'description' and 'steps'.")
        return None
    for key in sorted(spec.keys() - _FLOW_KEYS):
        here.error(f"A flow has no key '{key}'.", f"Use one of {', '.join(sorted(_FLOW_KEYS))}.")
    description = spec.get("description")
    if not isinstance(description, str) or not description.strip():
        here.error("The flow has no description, so nothing can decide when to start it.", "Add 'description: ...'.")
    steps = spec.get("steps")
    if not isinstance(steps, list) or not steps:
        here.error("The flow has no steps.", "Add a list of at least one step under 'steps'.")
        return None
    parser = _StepParser(domain, here, frozenset(_written_ids(steps)))
    first = parser.sequence(steps)
    parser.resolve()
    guard = condition(spec["if"], domain.slots, here) if spec.get("if") is not None else None
    name = spec.get("name")
    return Flow(
        id=flow_id,
        name=str(name) if name else flow_id.removeprefix(PATTERN_PREFIX).replace("_", " "),
        description=" ".join(str(description or "").split()),
        steps=parser.steps,
        first=first,
        guard=guard,
        intents=_intents(spec.get("nlu_trigger"), here),
        always_in_prompt=_flag(spec, "always_include_in_prompt", False, here),
        runs_completed=_flag(spec, "run_pattern_completed", True, here),
        persisted=_names(spec.get("persisted_slots"), "persisted_slots", here),
        file=here.file,
        line=here.line,
    )


class _StepParser:
    """Flattens nested lists; targets stay the author's ids until `resolve` has seen them all."""

    def __init__(self, domain: Domain, report: Reporter, reserved: frozenset[str]) -> None:
        self._domain = domain
        self._report = report
        self._reserved = reserved
        self.steps: dict[str, Step] = {}
        self._targets: list[tuple[str, str]] = []  # (step, id it jumps to)
        self._named: set[str] = set()
        self._count = 0

    def sequence(self, specs: list[Any]) -> str:
        """Parses a list of steps; returns the id of the first (END when none could be read)."""
        ids = [self._claim(spec) for spec in specs]
        present = [(step_id, spec) for step_id, spec in zip(ids, specs, strict=True) if step_id is not None]
        for position, (step_id, spec) in enumerate(present):
            last = position == len(present) - 1
            self._step(step_id, spec, END if last else present[position + 1][0], last)
        return present[0][0] if present else END

    def resolve(self) -> None:
        for step_id, target in self._targets:
            if target != END and target not in self._named:
                known = ", ".join(sorted(self._named)) or "none of the steps has an id"
                self._report.at(step=step_id).error(
                    f"'next' goes to '{target}', but this flow has no step with that id.",
                    f"Use END or one of: {known}.",
                )

    def _claim(self, spec: Any) -> str | None:
        """Checks the shape of one step and gives it an id."""
        here = self._report.at(line=getattr(spec, "line", 0))
        if not isinstance(spec, dict):
            here.error(f"'{spec}' is not a step.", f"A step is a mapping with {_CHOICES}.")
            return None
        kinds = [kind for kind in StepKind if kind in spec]
        if len(kinds) != 1:
            found = "none" if not kinds else " and ".join(kinds)
            here.at(step=str(spec.get("id") or "")).error(
                f"A step needs exactly one of {_CHOICES}; this one has {found}"
                + (f" (keys: {', '.join(spec)})." if not kinds else "."),
                "Give it one, or split it into two steps.",
            )
            return None
        kind = kinds[0]
        given = spec.get("id")
        if given is not None:
            step_id = str(given)
            if step_id == END:
                here.error("'END' can't be the id of a step.", "Choose another id.")
                return None
            if step_id in self._named:
                here.at(step=step_id).error(f"Two steps have the id '{step_id}'.", "Rename one of them.")
                return None
            self._named.add(step_id)
        else:
            step_id = self._free(_default_id(kind, spec[kind]))
        self.steps[step_id] = Step(step_id, self._count, kind, END)
        self._count += 1
        return step_id

    def _free(self, wanted: str) -> str:
        """Ids that name what the step does survive edits elsewhere in the flow, unlike positions."""
        candidate, number = wanted, 2
        while candidate in self.steps or candidate in self._reserved:
            candidate, number = f"{wanted}_{number}", number + 1
        return candidate

    def _step(self, step_id: str, spec: dict[str, Any], following: str, last: bool) -> None:
        draft = self.steps[step_id]
        here = self._report.at(step=step_id, line=getattr(spec, "line", 0))
        for key in sorted(spec.keys() - _COMMON_KEYS - _KEYS[draft.kind] - {draft.kind.value}):
            allowed = ", ".join(sorted(_COMMON_KEYS | _KEYS[draft.kind]))
            here.error(f"A '{draft.kind}' step has no key '{key}'.", f"Use one of {allowed}.")
        if draft.kind is StepKind.LINK and ("next" in spec or not last):
            here.error("'link' must be the last step and has no 'next'.", "Use 'call' to come back, or move it.")
        if draft.kind is StepKind.NOOP and spec.get("next") is None:
            here.error("A 'noop' step does nothing without 'next'.", "Add 'next' with its branches.")
        following = END if draft.kind is StepKind.LINK else following
        draft = replace(draft, description=str(spec.get("description") or ""))
        match draft.kind:
            case StepKind.ACTION | StepKind.LINK:
                draft = replace(draft, target=str(spec[draft.kind]))
            case StepKind.CALL:
                draft = replace(draft, target=str(spec[draft.kind]))
                if "mcp_server" in spec or "exit_if" in spec:
                    here.error("Calling tools and sub agents is not supported.", "Use a custom action instead.")
            case StepKind.COLLECT:
                draft = self._collect(draft, spec, here)
            case StepKind.SET_SLOTS:
                draft = replace(draft, assignments=self._assignments(spec[StepKind.SET_SLOTS], here))
            case StepKind.NOOP:
                pass
        self.steps[step_id] = replace(draft, next=self._next(step_id, spec, following, here))

    def _next(self, step_id: str, spec: dict[str, Any], following: str, here: Reporter) -> str | tuple[Branch, ...]:
        value = spec.get("next")
        if value is None:
            return following
        if isinstance(value, str):
            self._targets.append((step_id, value))
            return value
        if not isinstance(value, list) or not value:
            here.error("'next' must be a step id, END, a list of steps or a list of branches.", "Correct 'next'.")
            return END
        if not any(isinstance(item, dict) and ("if" in item or "else" in item) for item in value):
            return self.sequence(value)
        return self._branches(step_id, value, here)

    def _branches(self, step_id: str, items: list[Any], here: Reporter) -> tuple[Branch, ...]:
        branches: list[Branch] = []
        for position, item in enumerate(items):
            if not isinstance(item, dict) or set(item) not in ({"if", "then"}, {"else"}):
                here.error("A branch is either 'if' with 'then', or 'else'.", "Write '- if: ...' with 'then: ...'.")
                continue
            if "else" in item:
                if position != len(items) - 1:
                    here.error("'else' must be the last branch.", "Move it to the end.")
                branches.append(Branch(None, self._target(step_id, item["else"], here)))
                continue
            test: Condition | str | None
            if isinstance(item["if"], str) and "{{" in item["if"]:
                test = item["if"]  # rendered with the frame's context when it is reached
            else:
                test = condition(item["if"], self._domain.slots, here)
            target = self._target(step_id, item["then"], here)
            if test is not None:
                branches.append(Branch(test, target))
        if not branches or branches[-1].condition is not None:
            here.error("The branches have no 'else', so the flow could get stuck.", "Add '- else: END' or another.")
        return tuple(branches)

    def _target(self, step_id: str, value: Any, here: Reporter) -> str:
        if isinstance(value, str):
            self._targets.append((step_id, value))
            return value
        if isinstance(value, list) and value:
            return self.sequence(value)
        here.error("'then' and 'else' take a step id, END or a list of steps.", "Write the steps as a list ('- ').")
        return END

    def _collect(self, draft: Step, spec: dict[str, Any], here: Reporter) -> Step:
        name = str(spec[StepKind.COLLECT])
        slot = self._domain.slots.get(name)
        draft = replace(draft, target=name)
        if slot is None:
            here.error(
                f"'collect: {name}' names a slot that the domain does not define.",
                f"Define '{name}' under 'slots' or correct its spelling.",
            )
            return draft
        if slot.type is SlotType.LIST:
            here.error(f"'{name}' is a list slot, which can't be asked for.", "Let a custom action fill it.")
        utter = spec.get("utter")
        question = str(utter) if utter is not None else f"utter_ask_{name}"
        asks_by_action = f"action_ask_{name}" in self._domain.actions
        if question in self._domain.responses and asks_by_action:
            here.error(f"Both {question} and action_ask_{name} would ask for '{name}'.", "Remove one of the two.")
        elif utter is not None and question not in self._domain.responses:
            here.error(f"'utter: {question}' is not a response.", f"Define {question} under 'responses'.")
        elif question not in self._domain.responses and not asks_by_action:
            here.error(
                f"Nothing asks for '{name}'.", f"Define the response {question} or the action action_ask_{name}."
            )
        by_action = asks_by_action and question not in self._domain.responses
        refused = rejections(spec.get("rejections"), self._domain.slots, here)
        for rejection in refused:
            if rejection.utter not in self._domain.responses:
                here.error(
                    f"A rejection says '{rejection.utter}', which is not a response.",
                    f"Define {rejection.utter} under 'responses'.",
                )
        return replace(
            draft,
            ask_first=_flag(spec, "ask_before_filling", False, here),
            keeps=not _flag(spec, "reset_after_flow_ends", True, here),
            question=f"action_ask_{name}" if by_action else question,
            question_is_action=by_action,
            rejections=refused,
            forces=_flag(spec, "force_slot_filling", False, here),
        )

    def _assignments(self, spec: Any, here: Reporter) -> tuple[tuple[str, Any], ...]:
        items = spec if isinstance(spec, list) else [spec]
        if not items or not all(isinstance(item, dict) for item in items):
            here.error("'set_slots' takes a list of 'slot: value'.", "Write '- slot_name: value' below it.")
            return ()
        result: list[tuple[str, Any]] = []
        for name, value in ((str(name), value) for item in items for name, value in item.items()):
            slot = self._domain.slots.get(name)
            if slot is None:
                here.error(
                    f"'set_slots' names the slot '{name}', which the domain does not define.",
                    f"Define '{name}' under 'slots' or correct its spelling.",
                )
                continue
            if slot.type is SlotType.LIST:
                here.error(f"'{name}' is a list slot, which only a custom action can fill.", "Use a custom action.")
                continue
            try:
                result.append((name, coerce(slot, value)))
            except InvalidValue as error:
                here.error(
                    f"'{value}' can't be stored in the {slot.type} slot '{name}': it is {error}.",
                    "Correct the value.",
                )
        return tuple(result)


def _written_ids(spec: Any) -> list[str]:
    """Every id the author wrote, at any depth: a made-up one must not take it."""
    if isinstance(spec, list):
        return [found for item in spec for found in _written_ids(item)]
    if not isinstance(spec, dict):
        return []
    ids = [str(spec["id"])] if "id" in spec else []
    return ids + [found for key in ("next", "then", "else") for found in _written_ids(spec.get(key))]


def _default_id(kind: StepKind, value: Any) -> str:
    if kind is StepKind.SET_SLOTS:
        first = value[0] if isinstance(value, list) and value else value
        names = "_".join(first) if isinstance(first, dict) else ""
        return f"set_{names}" if names else "set_slots"
    return "noop" if kind is StepKind.NOOP else f"{kind}_{value}"


def _flag(spec: dict[str, Any], key: str, default: bool, here: Reporter) -> bool:
    value = spec.get(key, default)
    if isinstance(value, bool):
        return value
    here.error(f"'{key}' must be true or false, not '{value}'.", "Write true or false without quotes.")
    return default


def _names(spec: Any, key: str, here: Reporter) -> tuple[str, ...]:
    if spec is None:
        return ()
    if not isinstance(spec, list):
        here.error(f"'{key}' must be a list of slot names.", f"Write '{key}: [first, second]'.")
        return ()
    return tuple(str(name) for name in spec)


def _intents(spec: Any, here: Reporter) -> tuple[str, ...]:
    if spec is None:
        return ()
    names: list[str] = []
    for item in spec if isinstance(spec, list) else [spec]:
        intent = item.get("intent") if isinstance(item, dict) else None
        name = intent.get("name") if isinstance(intent, dict) else intent
        if not isinstance(name, str):
            here.error("'nlu_trigger' takes a list of intents.", "Write '- intent: name' below it.")
            continue
        names.append(name)
    return tuple(names)
