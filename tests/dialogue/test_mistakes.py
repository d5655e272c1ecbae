"""A flow author's mistakes, each answered with where it is, what it is and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.dialogue.assistant import Assistant
from server.dialogue.problems import SESSION_CONFIG, AssistantInvalid, Problem, Severity
from tests.dialogue.builders import build, write

DOMAIN = """
slots:
  city: {type: text}
  size: {type: float}
  done: {type: bool}
  things: {type: list}
responses:
  utter_hello: [{text: "Hello."}]
  utter_ask_city: [{text: "Where?"}]
  utter_ask_size: [{text: "How big?"}]
"""


def problems_of(folder: Path, steps: str = "", *, flows: str = "", domain: str = DOMAIN, **files: str) -> list[Problem]:
    if not flows:
        flows = "flows:\n  visit:\n    description: Visit a city.\n    steps:\n"
        flows += "\n".join("      " + line for line in steps.strip("\n").splitlines())
    write(folder, flows=flows, domain=domain, **files)
    return list(Assistant.check(folder))


STEP_MISTAKES = [
    ("- colect: city", "needs exactly one of", "Give it one"),
    ("- collect: city\n  action: utter_hello", "this one has action and collect", "split it"),
    ("- collect: town", "'collect: town' names a slot that the domain does not define", "Define 'town'"),
    ("- collect: done", "Nothing asks for 'done'", "utter_ask_done"),
    ("- collect: things", "list slot", "custom action"),
    ("- collect: city\n  utter: utter_where", "'utter: utter_where' is not a response", "Define utter_where"),
    ("- collect: city\n  ask_before_filing: true", "has no key 'ask_before_filing'", "ask_before_filling"),
    ("- collect: city\n  ask_before_filling: maybe", "must be true or false", "without quotes"),
    ("- collect: city\n  rejections: [{if: slots.city}]", "exactly the keys 'if' and 'utter'", "both"),
    ("- collect: city\n  rejections: [{if: slots.city, utter: utter_no}]", "says 'utter_no'", "Define utter_no"),
    ("- action: utter_helo", "The response utter_helo does not exist", "Define utter_helo"),
    ("- action: action_book", "The action action_book does not exist", "Add action_book to 'actions'"),
    ("- action: utter_hello\n  next: later", "no step with that id", "END"),
    ("- noop: true", "does nothing without 'next'", "branches"),
    ("- noop: true\n  next: [{if: slots.done, then: END}]", "no 'else'", "else: END"),
    ("- noop: true\n  next: [{else: END}, {if: slots.done, then: END}]", "'else' must be the last", "Move it"),
    ("- noop: true\n  next: [{if: slots.don, then: END}, {else: END}]", "uses the slot 'don'", "spelling"),
    ("- noop: true\n  next: [{if: done > , then: END}, {else: END}]", "can't be understood", "Correct the condition"),
    ("- noop: true\n  next: [{if: slots.done}, {else: END}]", "'if' with 'then'", "then"),
    ("- noop: true\n  next: [{if: slots.done, then: {action: utter_hello}}, {else: END}]", "'then' and 'else'", "list"),
    ("- id: a\n  action: utter_hello\n- id: a\n  action: utter_hello", "Two steps have the id 'a'", "Rename"),
    ("- action: utter_hello\n  next: END\n- action: utter_hello", "No step leads here", "Remove it"),
    ("- link: other\n- action: utter_hello", "'link' must be the last step", "call"),
    ("- link: nowhere", "'link: nowhere' names no flow", "Correct the name"),
    ("- link: pattern_chitchat", "pattern_human_handoff only", "Link to"),
    ("- call: nowhere", "'call: nowhere' names no flow", "Correct the name"),
    ("- call: visit", "in a circle: visit -> visit", "Break the circle"),
    ("- call: tool\n  mcp_server: shop", "not supported", "custom action"),
    ("- set_slots: [{town: x}]", "'set_slots' names the slot 'town'", "Define 'town'"),
    ("- set_slots: [{size: big}]", "can't be stored in the float slot 'size'", "Correct the value"),
    ("- set_slots: [{things: [1]}]", "list slot", "custom action"),
    ("- set_slots: city", "takes a list of 'slot: value'", "slot_name: value"),
    ("- utter_hello", "is not a step", "mapping"),
]


@pytest.mark.parametrize(("steps", "message", "fix"), STEP_MISTAKES, ids=[m[1][:40] for m in STEP_MISTAKES])
def test_a_mistake_in_a_step_names_file_flow_and_remedy(tmp_path: Path, steps: str, message: str, fix: str) -> None:
    found = [p for p in problems_of(tmp_path, steps) if message in p.message]

    assert found, [str(problem) for problem in problems_of(tmp_path, steps)]
    assert found[0].severity is Severity.ERROR
    assert (found[0].file, found[0].flow) == ("flows.yml", "visit")
    assert fix in found[0].fix
    assert found[0].line > 0


FLOW_MISTAKES = [
    ("flows:\n  visit:\n    steps: [{action: utter_hello}]", "no description"),
    ("flows:\n  visit:\n    description: Visit.", "no steps"),
    ("flows:\n  visit:\n    description: Visit.\n    steps: []", "no steps"),
    ("flows:\n  visit: hello", "must be a mapping"),
    ("flows:\n  -visit:\n    description: x\n    steps: [{action: utter_hello}]", "is not a flow id"),
    ("flows:\n  visit:\n    description: x\n    step: 1\n    steps: [{action: utter_hello}]", "no key 'step'"),
    ("flows:\n  visit:\n    description: x\n    if: slots.\n    steps: [{action: utter_hello}]", "can't be understood"),
    (
        "flows:\n  visit:\n    description: x\n    persisted_slots: [city]\n    steps: [{action: utter_hello}]",
        "which no collect or set_slots step of this flow fills",
    ),
    (
        "flows:\n  visit:\n    description: x\n    persisted_slots: [town]\n    steps: [{action: utter_hello}]",
        "names the slot 'town', which does not exist",
    ),
    (
        "flows:\n  visit:\n    description: x\n    persisted_slots: [city]\n    steps: [{collect: city}, "
        "{collect: size, reset_after_flow_ends: false}]",
        "are both used",
    ),
    ("flows:\n  pattern_mine:\n    description: x\n    steps: [{action: utter_hello}]", "is none of them"),
    (
        "flows:\n  pattern_collect_information:\n    description: x\n    steps: [{action: utter_hello}]",
        "can't be replaced here",
    ),
    (
        "flows:\n  pattern_chitchat:\n    description: x\n    steps: [{call: visit}]\n"
        "  visit:\n    description: x\n    steps: [{action: utter_hello}]",
        "A pattern must not use 'call'",
    ),
    (
        "flows:\n  pattern_internal_error:\n    description: x\n    steps: [{link: visit}]\n"
        "  visit:\n    description: x\n    steps: [{action: utter_hello}]",
        "must not use 'link'",
    ),
    (
        "flows:\n  a:\n    description: x\n    steps: [{call: b}]\n  b:\n    description: x\n    steps: [{link: c}]\n"
        "  c:\n    description: x\n    steps: [{action: utter_hello}]",
        "it can't use 'link'",
    ),
    ("flows: [visit]", "'flows' must be a mapping"),
    ("nlu: []", "No flows were found"),
    ("flows:\n  visit: {a: 1\n", "not valid YAML"),
    ("flows:\n  visit: {}\n  visit: {}", "is written twice"),
    ("- flows", "must be a mapping (key: value)"),
]


@pytest.mark.parametrize(("flows", "message"), FLOW_MISTAKES, ids=[m[1][:40] for m in FLOW_MISTAKES])
def test_a_mistake_in_a_flow_is_found(tmp_path: Path, flows: str, message: str) -> None:
    found = problems_of(tmp_path, flows=flows)

    assert any(message in problem.message and problem.fix for problem in found), [str(problem) for problem in found]


DOMAIN_MISTAKES = [
    ("slots: {city: {type: string}}", "unknown type 'string'"),
    ("slots: {city: {type: categorical}}", "has no values"),
    ("slots: {city: text}", "needs a mapping"),
    ("slots: {city: {type: float, initial_value: x}}", "initial value of 'city'"),
    ("slots: {city: {type: float, min_value: low}}", "'min_value' of the slot 'city' is not a number"),
    ("slots: {city: {type: text, mappings: [{type: from_heaven}]}}", "unknown mapping type"),
    ("slots: {city: {type: text, mappings: controlled}}", "must be a list"),
    ("slots: {'a b': {type: text}}", "a character that is not allowed"),
    ("slots: {city: {type: text, validation: {rejections: [{if: slots.city, utter: utter_x}]}}}", "says 'utter_x'"),
    ("slots: {city: {type: text, validation: {reject: []}}}", "takes 'rejections' and 'refill_utter' only"),
    ("slots: [city]", "'slots' must be a mapping"),
    ("responses: {hello: [{text: x}]}", "does not start with 'utter_'"),
    ("responses: {utter_x: hello}", "must be a list of variations"),
    ("responses: {utter_x: [{metadata: {}}]}", "says nothing"),
    ('responses: {utter_x: [{text: "{{ x", metadata: {template: jinja}}]}', "not valid Jinja"),
    ("responses: {utter_x: [{text: x, condition: slots.nope}]}", "uses the slot 'nope'"),
    ("responses: {utter_x: [{text: x, buttons: [{title: a, payload: '/SetSlots(a)'}]}]}", "can't be read"),
    ("responses: {utter_x: [{text: x, buttons: [a]}]}", "must be a list of 'title'"),
    ("actions: action_x", "'actions' must be a list"),
    ("actions: [action_x]", "Nothing runs the actions action_x"),
]


@pytest.mark.parametrize(("domain", "message"), DOMAIN_MISTAKES, ids=[m[1][:40] for m in DOMAIN_MISTAKES])
def test_a_mistake_in_the_domain_is_found(tmp_path: Path, domain: str, message: str) -> None:
    flows = "flows:\n  visit:\n    description: x\n    steps: [{action: utter_internal_error_rasa}]"

    found = problems_of(tmp_path, flows=flows, domain=domain)

    errors = [p for p in found if message in p.message and p.severity is Severity.ERROR]
    assert errors, [str(problem) for problem in found]
    assert errors[0].file == "domain.yml"


WARNINGS = [
    ({"domain": "responses: {utter_x: [{text: x, condition: 'true'}]}"}, "no variation without a condition"),
    ({"domain": "responses: {utter_x: [{text: 'Hello {nmae}'}]}"}, "shows '{nmae}'"),
    ({"domain": "slots: {continue_conversation: {type: bool}}"}, "is built in"),
    (
        {"domain": "slots: {a: {type: bool}}\nresponses: {utter_x: [{text: x, condition: slots.a and 1 or 2}]}"},
        "mixes",
    ),
    ({"domain": "slots: {a: {type: text, mappings: [{type: from_entity}]}}"}, "needs an NLU model"),
    ({"domain": "stories: []"}, "'stories' is not known"),
    ({"config": "pipeline: [{name: WhitespaceTokenizer}]"}, "'WhitespaceTokenizer' is not used"),
    ({"data": "stories: []"}, "'stories' is not used"),
]


@pytest.mark.parametrize(("files", "message"), WARNINGS, ids=[w[1][:30] for w in WARNINGS])
def test_what_is_only_suspicious_is_a_warning(tmp_path: Path, files: dict[str, str], message: str) -> None:
    flows = "flows:\n  visit:\n    description: x\n    steps: [{action: utter_internal_error_rasa}]"

    assistant = build(tmp_path, **{"flows": flows, "domain": "slots: {}", **files})

    assert any(message in warning.message for warning in assistant.warnings), assistant.warnings


@pytest.mark.parametrize("written", ["slots: {}", "session_config: {start_session_after_expiry: true}"])
def test_a_session_that_would_restart_has_its_own_code(tmp_path: Path, written: str) -> None:
    flows = "flows:\n  visit:\n    description: x\n    steps: [{action: utter_internal_error_rasa}]"
    folder = write(tmp_path, flows=flows)
    (folder / "domain.yml").write_text(written)

    with pytest.raises(AssistantInvalid, match="start_session_after_expiry") as caught:
        Assistant.load(folder)

    assert [problem.code for problem in caught.value.problems] == [SESSION_CONFIG]


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    steps = "- collect: town\n- action: utter_helo\n- call: nowhere"

    errors = [p for p in problems_of(tmp_path, steps) if p.severity is Severity.ERROR]

    assert len(errors) == 3
    assert "flows.yml:5: flow 'visit', step 'collect_town':" in str(errors[0])


def test_two_ways_to_ask_are_one_too_many(tmp_path: Path) -> None:
    found = problems_of(tmp_path, "- collect: city", domain=DOMAIN + "actions: [action_ask_city]\n")

    assert any("Both utter_ask_city and action_ask_city" in problem.message for problem in found)


def test_a_listed_action_without_a_class_is_found(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path, "- action: action_book", domain=DOMAIN + "actions: [action_book]\n", actions="class Nothing: ...\n"
    )

    assert any("no class in 'actions' has that name" in problem.message for problem in found)


def test_actions_that_can_not_be_imported_are_a_problem_not_a_crash(tmp_path: Path) -> None:
    found = problems_of(tmp_path, "- action: utter_hello", actions="import nothing_of_that_name\n")

    assert any("can't be imported: ModuleNotFoundError" in problem.message for problem in found)


def test_a_flow_defined_in_two_files_is_found(tmp_path: Path) -> None:
    flow = "flows:\n  visit:\n    description: x\n    steps: [{action: utter_hello}]"
    write(tmp_path / "data", more=flow)

    found = problems_of(tmp_path, flows=flow)

    assert any("is defined twice" in p.message and p.file == "data/more.yml" for p in found)


def test_a_slot_defined_in_two_domain_files_is_found(tmp_path: Path) -> None:
    write(tmp_path / "domain", more="slots: {city: {type: text}}")

    found = problems_of(tmp_path, "- action: utter_hello")

    assert any("'city' is defined twice under 'slots'" in problem.message for problem in found)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AssistantInvalid, match="There is no folder 'nowhere'"):
        Assistant.load(tmp_path / "nowhere")


def test_an_allowlist_with_an_unknown_slot_is_found(tmp_path: Path) -> None:
    found = problems_of(tmp_path, "- action: utter_hello", endpoints="a2a_server: {slot_allowlist: [town]}")

    assert any("'slot_allowlist' names the slot 'town'" in problem.message for problem in found)


def test_a_sub_agent_with_a_flows_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "sub_agents" / "visit").mkdir(parents=True)

    found = problems_of(tmp_path, "- action: utter_hello")

    assert any("A sub agent is called 'visit' too" in problem.message for problem in found)


def test_a_grpc_action_server_is_refused(tmp_path: Path) -> None:
    found = problems_of(tmp_path, "- action: utter_hello", endpoints="action_endpoint: {url: 'grpc://x:1'}")

    assert any("is not supported" in p.message and p.file == "endpoints.yml" for p in found)


def test_yaml_words_stay_words(tmp_path: Path) -> None:
    assistant = build(
        tmp_path,
        flows="flows:\n  visit:\n    description: x\n    steps: [{action: utter_internal_error_rasa}]",
        domain="slots: {answer: {type: categorical, values: [yes, no, on, 2026-01-02, 8:30]}}",
    )

    assert assistant.project.domain.slots["answer"].values == ("yes", "no", "on", "2026-01-02", "8:30")
