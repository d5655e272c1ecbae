"""The domain of an assistant: slots, responses, actions and session settings, compiled from YAML."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from server.dialogue.conditions import Condition, ConditionError, compile_condition
from server.dialogue.payloads import parse_payload
from server.dialogue.problems import SESSION_CONFIG, Reporter
from server.dialogue.responses import (
    Button,
    Render,
    Response,
    TemplateError,
    Variation,
    fields_of,
    jinja,
    plain,
    rank,
)
from server.dialogue.slots import (
    BUILTIN_SLOTS,
    InvalidValue,
    Rejection,
    Slot,
    SlotType,
    category_lookup,
    coerce,
)
from server.dialogue.yamlfiles import Located

_DOMAIN_KEYS = frozenset(
    {"slots", "responses", "actions", "session_config", "intents", "entities", "forms", "e2e_actions", "config"}
)
_SLOT_KEYS = frozenset(
    {
        "type", "values", "initial_value", "min_value", "max_value", "mappings", "validation",
        "shared_for_coexistence", "influence_conversation", "description", "metadata",
    }
)  # fmt: skip
_MAPPINGS = {"from_llm": False, "controlled": True, "custom": True}
_NLU_MAPPINGS = frozenset({"from_entity", "from_intent", "from_text", "from_trigger_intent"})
# Variables the built-in responses get from the engine rather than from a slot.
_ENGINE_VARIABLES = frozenset({"value"})


@dataclass(frozen=True, slots=True)
class Domain:
    slots: dict[str, Slot]
    responses: dict[str, Response]
    actions: frozenset[str]
    sends_domain: frozenset[str]
    initial: dict[str, Any]  # the initial values that are not null
    exported: tuple[str, ...]  # the slots an orchestrator may see and set
    every_turn: tuple[str, ...]  # actions that run at the start of each turn
    raw: dict[str, Any] = field(compare=False)  # as written, for action servers that ask for it


def merge_domains(parts: list[tuple[str, Located]], report: Reporter) -> dict[str, dict[str, tuple[str, Any]]]:
    """One section -> name -> (file, value) view over all domain files; a name defined twice is an error."""
    merged: dict[str, dict[str, tuple[str, Any]]] = {"slots": {}, "responses": {}, "actions": {}, "session_config": {}}
    for file, part in parts:
        here = report.at(file=file, line=part.line)
        for key, value in part.items():
            if key == "version" or (key in _DOMAIN_KEYS and key not in merged):
                continue
            if key not in merged:
                here.warning(f"The domain key '{key}' is not known.", f"Use one of {', '.join(sorted(_DOMAIN_KEYS))}.")
                continue
            items = _section(key, value, here)
            for name, item in items:
                if key != "actions" and name in merged[key]:
                    where = merged[key][name][0]
                    here.error(f"'{name}' is defined twice under '{key}' (also in {where}).", "Keep one definition.")
                    continue
                merged[key][name] = (file, item)
    return merged


def build_domain(
    merged: dict[str, dict[str, tuple[str, Any]]],
    builtin_responses: dict[str, tuple[str, Any]],
    report: Reporter,
) -> Domain:
    """Compiles the merged sections; every mistake goes to the report."""
    slots = {slot.name: slot for slot in BUILTIN_SLOTS}
    for name, (file, spec) in merged["slots"].items():
        if name in slots:
            report.at(file=file).warning(
                f"The slot '{name}' is built in; this definition is not used.", "Remove it or rename the slot."
            )
            continue
        slots[name] = _slot(name, spec, report.at(file=file, line=getattr(spec, "line", 0)))
    responses: dict[str, Response] = {}
    for name, (file, spec) in {**builtin_responses, **merged["responses"]}.items():
        responses[name] = _response(name, spec, slots, report.at(file=file))
    for name, (file, spec) in merged["slots"].items():
        slots[name] = _validated(slots[name], spec, slots, responses, report.at(file=file))
    actions, sends = _actions(merged["actions"])
    every_turn = tuple(dict.fromkeys(slot.every_turn for slot in slots.values() if slot.every_turn))
    for action in every_turn:
        if action not in actions:
            report.error(
                f"'run_action_every_turn: {action}' names an action that is not listed under 'actions'.",
                f"Add {action} to 'actions' in the domain.",
            )
    _check_session(merged["session_config"], report)
    return Domain(
        slots=slots,
        responses=responses,
        actions=actions,
        sends_domain=sends,
        initial={slot.name: slot.initial for slot in slots.values() if slot.initial is not None},
        exported=tuple(slot.name for slot in slots.values() if not slot.builtin),
        every_turn=every_turn,
        raw={
            "slots": {name: spec for name, (_, spec) in merged["slots"].items()},
            "responses": {name: spec for name, (_, spec) in merged["responses"].items()},
            "actions": sorted(actions),
            "session_config": {name: value for name, (_, value) in merged["session_config"].items()},
        },
    )


def condition(text: object, slots: dict[str, Slot], report: Reporter) -> Condition | None:
    """Compiles a condition and checks its slots; None after reporting what is wrong."""
    if isinstance(text, (dict, list)) or text is None:
        report.error("A condition must be a text.", "Write it in one line, for example slots.amount > 10.")
        return None
    try:
        compiled = compile_condition(text)
    except ConditionError as error:
        report.error(f"The condition can't be understood: {error}.", "Correct the condition.")
        return None
    for name in sorted(compiled.slots - slots.keys()):
        report.error(
            f"The condition '{compiled.text}' uses the slot '{name}', which the domain does not define.",
            f"Define '{name}' under 'slots' or correct its spelling.",
        )
    if compiled.mixed:
        report.warning(
            f"'{compiled.text}' mixes 'and' and 'or' without parentheses; they bind equally and to the right.",
            "Add parentheses to say what is meant.",
        )
    return compiled


def rejections(spec: Any, slots: dict[str, Slot], report: Reporter) -> tuple[Rejection, ...]:
    """The `rejections` list of a collect step or of a slot's `validation`."""
    if spec is None:
        return ()
    if not isinstance(spec, list):
        report.error("'rejections' must be a list.", "Write '- if: ...' and 'utter: ...' below it.")
        return ()
    result: list[Rejection] = []
    for item in spec:
        if not isinstance(item, dict) or set(item) != {"if", "utter"}:
            report.error("A rejection needs exactly the keys 'if' and 'utter'.", "Give it both.")
            continue
        compiled = condition(item["if"], slots, report)
        if compiled is not None:
            result.append(Rejection(compiled, str(item["utter"])))
    return tuple(result)


def _section(key: str, value: Any, report: Reporter) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if key == "actions":
        if not isinstance(value, list):
            report.error("'actions' must be a list of names.", "Write '- action_name' lines below it.")
            return []
        items: list[tuple[str, Any]] = []
        for item in value:
            if isinstance(item, dict) and len(item) == 1:
                items.extend(item.items())
            else:
                items.append((str(item), None))
        return items
    if not isinstance(value, dict):
        report.error(f"'{key}' must be a mapping.", "Write 'name: ...' lines below it.")
        return []
    return list(value.items())


def _actions(section: dict[str, tuple[str, Any]]) -> tuple[frozenset[str], frozenset[str]]:
    sends = {name for name, (_, spec) in section.items() if isinstance(spec, dict) and spec.get("send_domain") is True}
    return frozenset(section), frozenset(sends)


def _slot(name: str, spec: Any, report: Reporter) -> Slot:
    fallback = Slot(name, SlotType.ANY)
    if not isinstance(spec, dict):
        report.error(f"The slot '{name}' needs a mapping.", "Write at least 'type: text' below it.")
        return fallback
    for key in sorted(spec.keys() - _SLOT_KEYS):
        known = ", ".join(sorted(_SLOT_KEYS))
        report.warning(f"The slot '{name}' has the unknown key '{key}'.", f"Use one of {known}.")
    if any(character in name for character in "()=,. "):
        report.error(f"The slot name '{name}' has a character that is not allowed.", "Use letters, digits and '_'.")
    try:
        kind = SlotType(str(spec.get("type", "")))
    except ValueError:
        known = ", ".join(SlotType)
        report.error(f"The slot '{name}' has the unknown type '{spec.get('type')}'.", f"Use one of {known}.")
        return fallback
    values: tuple[Any, ...] = ()
    if kind is SlotType.CATEGORICAL:
        listed = spec.get("values")
        if not isinstance(listed, list) or not listed:
            report.error(f"The categorical slot '{name}' has no values.", "List them: values: [first, second].")
        else:
            values = tuple(value for value in listed if value is not None)
    controlled, every_turn = _mappings(name, spec.get("mappings"), report)
    slot = Slot(
        name,
        kind,
        values=values,
        low=_bound(name, "min_value", spec, report) if kind is SlotType.FLOAT else None,
        high=_bound(name, "max_value", spec, report) if kind is SlotType.FLOAT else None,
        controlled=controlled,
        every_turn=every_turn,
        lookup=category_lookup(values),
    )
    initial = spec.get("initial_value")
    try:
        initial = coerce(slot, initial)
    except InvalidValue as error:
        report.error(f"The initial value of '{name}' is {error}.", "Give a value of the slot's type or remove it.")
        initial = None
    return replace(slot, initial=initial)


def _mappings(name: str, spec: Any, report: Reporter) -> tuple[bool, str | None]:
    if spec is None:
        return False, None
    if not isinstance(spec, list) or not all(isinstance(item, dict) for item in spec):
        report.error(f"'mappings' of the slot '{name}' must be a list.", "Write '- type: controlled' below it.")
        return False, None
    controlled = bool(spec)
    every_turn: str | None = None
    for item in spec:
        kind = str(item.get("type", ""))
        if kind in _MAPPINGS:
            controlled = controlled and _MAPPINGS[kind]
            every_turn = item.get("run_action_every_turn") or every_turn
        elif kind in _NLU_MAPPINGS:
            controlled = False
            report.warning(
                f"The mapping '{kind}' of the slot '{name}' needs an NLU model; it is read as from_llm.",
                "Use from_llm or controlled.",
            )
        else:
            report.error(f"The slot '{name}' has the unknown mapping type '{kind}'.", "Use from_llm or controlled.")
    return controlled, every_turn


def _bound(name: str, key: str, spec: dict[str, Any], report: Reporter) -> float | None:
    value = spec.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        report.error(f"'{key}' of the slot '{name}' is not a number.", "Write a plain number.")
        return None
    return float(value)


def _validated(slot: Slot, spec: Any, slots: dict[str, Slot], responses: dict[str, Response], report: Reporter) -> Slot:
    """The slot with its domain-level validation, which may name any slot and is therefore compiled last."""
    if not isinstance(spec, dict) or spec.get("validation") is None:
        return slot
    validation = spec["validation"]
    if not isinstance(validation, dict) or validation.keys() - {"rejections", "refill_utter"}:
        report.error(
            f"'validation' of the slot '{slot.name}' takes 'rejections' and 'refill_utter' only.", "Correct the keys."
        )
        return slot
    refused = rejections(validation.get("rejections"), slots, report)
    refill = validation.get("refill_utter")
    for utter in [rejection.utter for rejection in refused] + ([str(refill)] if refill else []):
        if utter not in responses:
            report.error(
                f"The validation of the slot '{slot.name}' says '{utter}', which is not a response.",
                f"Define {utter} under 'responses'.",
            )
    return replace(slot, rejections=refused, refill_utter=str(refill) if refill else None)


def _response(name: str, spec: Any, slots: dict[str, Slot], report: Reporter) -> Response:
    if not name.startswith("utter_"):
        report.error(f"The response '{name}' does not start with 'utter_'.", f"Rename it to utter_{name}.")
    if not isinstance(spec, list) or not spec or not all(isinstance(item, dict) for item in spec):
        report.error(f"The response '{name}' must be a list of variations.", "Write '- text: \"...\"' below it.")
        return Response(name, ())
    variations = [_variation(name, item, slots, report.at(line=getattr(item, "line", 0))) for item in spec]
    if not any(variation.condition is None and variation.channel is None for variation in variations):
        report.at(line=getattr(spec[0], "line", 0)).warning(
            f"The response '{name}' has no variation without a condition; when none holds, the turn fails.",
            "Add a variation without 'condition' and 'channel'.",
        )
    return Response(name, rank(variations))


def _variation(name: str, spec: dict[str, Any], slots: dict[str, Slot], report: Reporter) -> Variation:
    metadata = spec.get("metadata")
    use_jinja = isinstance(metadata, dict) and metadata.get("template") == "jinja"

    def compiled(text: Any) -> Render:
        source = str(text)
        if use_jinja:
            try:
                return jinja(source)
            except TemplateError as error:
                report.error(f"The template of '{name}' is not valid Jinja: {error}.", "Correct the template.")
                return plain("")
        for variable in sorted(fields_of(source) - slots.keys() - _ENGINE_VARIABLES):
            report.warning(
                f"The response '{name}' shows '{{{variable}}}', which is not a slot.",
                "Correct the spelling, or ignore this when an action passes the value.",
            )
        return plain(source)

    if not any(spec.get(key) is not None for key in ("text", "custom", "image", "attachment", "elements", "buttons")):
        report.error(f"A variation of '{name}' says nothing.", "Give it a 'text' or a 'custom' payload.")
    channel = spec.get("channel")
    text = spec.get("text")
    return Variation(
        text=None if text is None else compiled(text),
        buttons=tuple(
            Button(compiled(title), compiled(payload)) for title, payload in _buttons(name, spec.get("buttons"), report)
        ),
        custom=spec.get("custom"),
        image=None if spec.get("image") is None else str(spec["image"]),
        attachment=spec.get("attachment"),
        elements=spec.get("elements"),
        condition=_variation_condition(spec.get("condition"), slots, report),
        channel=None if channel is None else str(channel),
    )


def _variation_condition(spec: Any, slots: dict[str, Slot], report: Reporter) -> Condition | None:
    if spec is None:
        return None
    if not isinstance(spec, list):
        return condition(spec, slots, report)
    # the older form: a list of slots with the value each must have
    wanted: dict[str, Any] = {}
    for item in spec:
        if not isinstance(item, dict) or "name" not in item or "value" not in item:
            report.error("A condition in list form needs 'name' and 'value'.", "Write it as a text instead.")
            continue
        wanted[str(item["name"])] = item["value"]
    for name in sorted(wanted.keys() - slots.keys()):
        report.error(f"The condition uses the slot '{name}', which the domain does not define.", "Define the slot.")
    return Condition(
        text=str(wanted),
        evaluate=lambda values, context: all(values.get(name) == value for name, value in wanted.items()),
        slots=frozenset(wanted),
        mixed=False,
        constant=None,
        patterns=(),
    )


def _buttons(name: str, spec: Any, report: Reporter) -> list[tuple[str, str]]:
    if spec is None:
        return []
    if not isinstance(spec, list) or not all(isinstance(item, dict) and "title" in item for item in spec):
        report.error(f"The buttons of '{name}' must be a list of 'title' and 'payload'.", "Give each button a title.")
        return []
    buttons = [(str(item["title"]), str(item.get("payload", item["title"]))) for item in spec]
    for title, payload in buttons:
        if payload.startswith("/SetSlots") and parse_payload(payload) is None:
            report.error(
                f"The payload of the button '{title}' of '{name}' can't be read.",
                "Write /SetSlots(name=value, other=value) with at most 10 pairs and no commas or parentheses inside.",
            )
    return buttons


def _check_session(section: dict[str, tuple[str, Any]], report: Reporter) -> None:
    file, value = section.get("start_session_after_expiry", ("", None))
    if value is not False:
        written = "is not set, which means true" if value is None else f"is {str(value).lower()}"
        report.at(file=file or "domain.yml").error(
            f"session_config.start_session_after_expiry {written}: a resumed context would lose its slots.",
            "Set 'start_session_after_expiry: false' under 'session_config' in the domain.",
            code=SESSION_CONFIG,
        )
