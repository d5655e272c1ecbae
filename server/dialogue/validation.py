"""Checks that need the whole assistant: names across files, calls, links, persisted slots."""

from __future__ import annotations

from server.dialogue.domain import Domain
from server.dialogue.flows import PATTERN_PREFIX, Flow, Step, StepKind
from server.dialogue.problems import Reporter

# Actions the engine brings along; a class of the same name replaces one.
DEFAULT_ACTIONS = frozenset(
    {
        "action_listen",
        "action_cancel_flow",
        "action_correct_flow_slot",
        "action_clarify_flows",
        "action_continue_interrupted_flow",
        "action_cancel_interrupted_flows",
        "action_clean_stack",
        "action_restart",
        "action_session_start",
        "action_repeat_bot_messages",
        "action_handoff_metric",
        "action_reset_routing",
    }
)
# The engine runs these itself: a flow of that name would never be reached.
NATIVE_PATTERNS = frozenset({"pattern_collect_information", "pattern_validate_slot"})
# Known names that have no meaning here yet; they are accepted and never started.
IDLE_PATTERNS = frozenset(
    {
        "pattern_user_silence",
        "pattern_customer_satisfaction",
        "pattern_external_agent_processing",
        "pattern_code_change",
    }
)
_LINKABLE = "pattern_human_handoff"


def check_flows(
    flows: dict[str, Flow],
    builtin: frozenset[str],
    intents: frozenset[str],
    agents: frozenset[str],
    domain: Domain,
    report: Reporter,
) -> None:
    """Reports every mistake that a single step can't show."""
    called = {step.target for flow in flows.values() for step in flow.steps.values() if step.kind is StepKind.CALL}
    for flow in flows.values():
        here = report.at(file=flow.file, line=flow.line, flow=flow.id)
        if flow.id in agents:
            here.error(f"A sub agent is called '{flow.id}' too.", "Rename the flow or the agent.")
        if flow.is_pattern:
            _check_pattern(flow, builtin, here)
        for intent in flow.intents:
            if intent not in intents:
                here.warning(f"The intent '{intent}' has no examples.", "Add it to nlu.yml with a few examples.")
        _check_persisted(flow, domain, here)
        _check_reachable(flow, here)
        for step in flow.steps.values():
            _check_step(step, flow, flows, called, agents, domain, here.at(step=step.id))
    _check_cycles(flows, report)


def _check_pattern(flow: Flow, builtin: frozenset[str], here: Reporter) -> None:
    if flow.id in NATIVE_PATTERNS:
        here.error(
            f"{flow.id} can't be replaced here.", "Use rejections, validate_<slot> and utter_ask_<slot> instead."
        )
    elif flow.id in IDLE_PATTERNS:
        here.warning(f"{flow.id} is accepted but never starts.", "Remove it or keep it for later.")
    elif flow.id not in builtin:
        here.error(
            f"'{PATTERN_PREFIX}' is reserved for the built-in patterns, and {flow.id} is none of them.",
            f"Rename the flow, or use one of {', '.join(sorted(builtin))}.",
        )


def _check_persisted(flow: Flow, domain: Domain, here: Reporter) -> None:
    written = {step.target for step in flow.steps.values() if step.kind is StepKind.COLLECT}
    written |= {name for step in flow.steps.values() for name, _ in step.assignments}
    for name in flow.persisted:
        if name not in domain.slots:
            here.error(f"'persisted_slots' names the slot '{name}', which does not exist.", "Correct its spelling.")
        elif name not in written:
            here.error(
                f"'persisted_slots' names '{name}', which no collect or set_slots step of this flow fills.",
                "Remove it (slots set by actions stay anyway) or fill it in this flow.",
            )
    if flow.persisted and any(step.keeps for step in flow.steps.values()):
        here.error(
            "'persisted_slots' and 'reset_after_flow_ends' are both used.", "Use 'persisted_slots' for all of them."
        )


def _check_reachable(flow: Flow, here: Reporter) -> None:
    seen: set[str] = set()
    todo = [flow.first]
    while todo:
        step = flow.steps.get(todo.pop())
        if step is None or step.id in seen:
            continue
        seen.add(step.id)
        todo.extend([step.next] if isinstance(step.next, str) else [branch.target for branch in step.next])
    for step_id in sorted(flow.steps.keys() - seen):
        here.at(step=step_id).error(
            "No step leads here, so it never runs.", "Remove it, or name it in a 'next' (it needs an 'id')."
        )


def _check_step(
    step: Step,
    flow: Flow,
    flows: dict[str, Flow],
    called: set[str],
    agents: frozenset[str],
    domain: Domain,
    here: Reporter,
) -> None:
    match step.kind:
        case StepKind.ACTION:
            _check_action(step.target, domain, here)
        case StepKind.LINK:
            _check_link(step.target, flow, flows, called, here)
        case StepKind.CALL:
            if flow.is_pattern:
                here.error("A pattern must not use 'call'.", "Use 'link', or put the steps into the pattern.")
            if step.target in agents:
                here.error(
                    f"'call: {step.target}' calls a sub agent, which is not supported.", "Use a custom action instead."
                )
            elif step.target not in flows or step.target.startswith(PATTERN_PREFIX):
                here.error(f"'call: {step.target}' names no flow.", "Correct the name or define the flow.")
        case _:
            pass


def _check_action(name: str, domain: Domain, here: Reporter) -> None:
    if "{{" in name:
        return
    if name.startswith("utter_"):
        if name not in domain.responses:
            here.error(f"The response {name} does not exist.", f"Define {name} under 'responses' in the domain.")
    elif name not in domain.actions and name not in DEFAULT_ACTIONS:
        here.error(f"The action {name} does not exist.", f"Add {name} to 'actions' in the domain.")


def _check_link(target: str, flow: Flow, flows: dict[str, Flow], called: set[str], here: Reporter) -> None:
    if target not in flows:
        here.error(f"'link: {target}' names no flow.", "Correct the name or define the flow.")
    elif target.startswith(PATTERN_PREFIX) and target != _LINKABLE and not flow.is_pattern:
        here.error(f"A flow may link to {_LINKABLE} only among the patterns.", f"Link to {_LINKABLE} or a flow.")
    if flow.id == "pattern_internal_error":
        here.error("pattern_internal_error must not use 'link'.", "End it after telling the user.")
    if flow.id in called:
        here.error(
            f"'{flow.id}' is called by another flow, so it must come back: it can't use 'link'.",
            "Use 'call', or move the link into the calling flow.",
        )


def _check_cycles(flows: dict[str, Flow], report: Reporter) -> None:
    calls = {
        flow.id: sorted({step.target for step in flow.steps.values() if step.kind is StepKind.CALL} & flows.keys())
        for flow in flows.values()
    }
    reported: set[frozenset[str]] = set()

    def visit(flow_id: str, path: list[str]) -> None:
        if flow_id in path:
            circle = path[path.index(flow_id) :]
            if frozenset(circle) not in reported:
                reported.add(frozenset(circle))
                flow = flows[flow_id]
                report.at(file=flow.file, line=flow.line, flow=flow_id).error(
                    f"These flows call each other in a circle: {' -> '.join([*circle, flow_id])}.",
                    "Break the circle, for example with 'link'.",
                )
            return
        for target in calls[flow_id]:
            visit(target, [*path, flow_id])

    for flow_id in calls:
        visit(flow_id, [])
