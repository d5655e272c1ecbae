"""How a dialogue goes: flows, calls, corrections, interruptions and repair, turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.dialogue.assistant import Assistant, TurnResult
from server.dialogue.commands import (
    CancelFlow,
    ChitChat,
    Clarify,
    Command,
    SetSlot,
    StartFlow,
)
from server.dialogue.engine import WAIT, Engine, RunAction
from server.dialogue.outcomes import ActionResult
from server.dialogue.settings import AssistantSettings
from tests.dialogue.builders import Talk, build, events, spoken

DOMAIN = """
slots:
  city: {type: text}
  size: {type: float, initial_value: 3}
  sure: {type: bool}
  color: {type: categorical, values: [red, blue], initial_value: red}
  result: {type: text, mappings: [{type: controlled}]}
  open: {type: bool, mappings: [{type: controlled}]}
  note: {type: text}
  name: {type: text}
responses:
  utter_ask_city: [{text: "Where to?"}]
  utter_ask_size: [{text: "How big?"}]
  utter_ask_sure: [{text: "Sure about {city}?"}]
  utter_ask_color: [{text: "Which colour?"}]
  utter_ask_note: [{text: "Any note?"}]
  utter_ask_name: [{text: "What name?"}]
  utter_done: [{text: "Done with {city}."}]
  utter_child: [{text: "Child."}]
  utter_other: [{text: "Other."}]
  utter_open:
    - {text: "It is open.", condition: slots.open}
    - {text: "It is closed."}
"""
FLOWS = """
flows:
  trip:
    description: Plan a trip.
    persisted_slots: [result]
    steps:
      - call: where
      - collect: color
      - collect: sure
        ask_before_filling: true
      - set_slots: [{result: planned}]
      - action: utter_done
  where:
    description: Ask for the place.
    if: False
    steps:
      - collect: city
  other:
    description: Something else.
    steps:
      - action: utter_other
  guarded:
    description: Only when open.
    if: slots.open
    steps:
      - action: utter_open
  linked:
    description: Ends in another flow.
    steps:
      - action: utter_child
      - link: other
  rename:
    description: Change the name.
    steps:
      - collect: name
  endless:
    description: Never ends.
    steps:
      - id: again
        noop: true
        next: again
  write_note:
    description: Takes a note.
    steps:
      - collect: note
        force_slot_filling: true
      - action: utter_done
"""


@pytest.fixture
def trips(tmp_path: Path) -> Assistant:
    return build(tmp_path, domain=DOMAIN, flows=FLOWS)


async def do(talk: Talk, *commands: Command, text: str = "words") -> TurnResult:
    """A turn with these commands instead of what a generator would make of a text."""

    class Given:
        async def generate(self, situation: Any, said: str, flow: str | None = None) -> list[Command]:
            return list(commands)

        async def aclose(self) -> None: ...

    object.__setattr__(talk.assistant._wiring, "generator", Given())
    return await talk.say(text)


async def test_a_called_flow_returns_and_its_slots_live_as_long_as_the_parent(trips: Assistant) -> None:
    talk = Talk(trips)

    first = await do(talk, StartFlow("trip"))
    second = await do(talk, SetSlot("city", "Rome"))
    third = await do(talk, SetSlot("sure", True))

    assert events(first, "flow_started") == ["trip", "where"]
    assert first.data["active_flow"] == "trip"
    assert events(second, "flow_completed") == ["where"]
    assert spoken(second) == ["utter_ask_sure"], "the colour has an initial value"
    assert third.texts[0] == "Done with Rome."
    assert third.task_state == "completed"
    assert third.data["persisted_slots"] == {"result": "planned"}
    assert third.data["slots"] == {"size": 3.0, "color": "red", "result": "planned"}


async def test_a_correction_of_a_finished_childs_slot_goes_back_through_the_call(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"), SetSlot("city", "Rome"))

    result = await do(talk, SetSlot("city", "Oslo"))

    assert spoken(result) == ["utter_corrected_previous_input", "utter_ask_sure"]
    assert result.texts[0] == "Noted: city is now Oslo."
    assert result.texts[1] == "Sure about Oslo?"
    assert "where" in events(result, "flow_started")


async def test_clearing_a_slot_asks_for_it_again_without_a_word(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"), SetSlot("city", "Rome"))

    result = await do(talk, SetSlot("city", None))

    assert spoken(result) == ["utter_ask_city"]
    assert result.data["active_flow"] == "trip"


async def test_a_correction_that_can_not_be_stored_keeps_the_old_value(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"), SetSlot("city", "Rome"))

    result = await do(talk, SetSlot("color", "green"))

    assert spoken(result) == ["utter_categorical_slot_rejection", "utter_ask_sure"]
    assert result.texts[0] == "'green' is not one of the choices."
    assert result.data["slots"]["color"] == "red"


async def test_cancelling_in_a_child_cancels_the_whole_chain_and_restores_the_slots(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"), SetSlot("city", "Rome"))
    await do(talk, SetSlot("sure", True))
    await do(talk, StartFlow("trip"), SetSlot("color", "blue"))

    result = await do(talk, CancelFlow())

    assert result.task_state == "canceled"
    assert result.data["canceled_flow"] == "trip"
    assert events(result, "flow_cancelled") == ["where", "trip"]
    assert result.data["slots"] == {"size": 3.0, "color": "red", "result": "planned"}, "the first run's result stays"


async def test_a_guard_keeps_the_generator_out_but_not_an_explicit_intent(tmp_path: Path) -> None:
    flows = FLOWS.replace("    if: slots.open\n", "    if: slots.open\n    nlu_trigger: [{intent: look}]\n")
    talk = Talk(build(tmp_path, domain=DOMAIN, flows=flows, nlu="nlu: [{intent: look, examples: '- look'}]"))

    assert (await do(talk, StartFlow("guarded"))).task_state == "rejected"
    assert (await talk.say("/look")).texts[0] == "It is closed."


async def test_a_guard_sees_the_orchestrators_values_of_the_same_turn(trips: Assistant) -> None:
    talk = Talk(trips)

    result = await talk.say("guarded", seed={"open": True})

    assert result.texts[0] == "It is open."
    assert result.task_state == "completed"


async def test_a_link_completes_the_flow_and_starts_the_next(trips: Assistant) -> None:
    result = await do(Talk(trips), StartFlow("linked"))

    assert spoken(result) == ["utter_child", "utter_other", "utter_ask_continue_conversation"]
    assert events(result, "flow_completed") == ["linked", "other"]
    assert result.task_state == "completed"


async def test_two_flows_in_one_message_run_one_after_the_other_without_a_question(trips: Assistant) -> None:
    result = await do(Talk(trips), StartFlow("other"), StartFlow("linked"))

    assert spoken(result) == ["utter_other", "utter_child", "utter_other", "utter_ask_continue_conversation"]


async def test_two_flows_that_complete_in_one_turn_report_both_results(tmp_path: Path) -> None:
    flows = """
    flows:
      first: {description: x, persisted_slots: [a, c], steps: [{set_slots: [{a: one}, {c: null}]}]}
      second: {description: y, persisted_slots: [b], steps: [{set_slots: [{b: two}]}]}
    """
    talk = Talk(build(tmp_path, domain="slots: {a: {type: text}, b: {type: text}, c: {type: text}}", flows=flows))

    result = await do(talk, StartFlow("first"), StartFlow("second"))

    assert result.task_state == "completed"
    assert result.data["persisted_slots"] == {"a": "one", "b": "two"}


async def test_a_branch_loop_and_nested_steps_run_as_written(tmp_path: Path) -> None:
    flows = """
    flows:
      count:
        description: Counts down.
        steps:
          - id: top
            noop: true
            next:
              - if: slots.n = 3
                then: [{set_slots: {n: 2}, next: top}]
              - if: slots.n = 2
                then:
                  - action: utter_cannot_handle
                  - set_slots: [{n: 1}]
                    next:
                      - action: utter_ask_rephrase
                        next: top
              - else: end
          - id: end
            action: utter_closing_words
    """
    talk = Talk(build(tmp_path, domain="slots: {n: {type: float, initial_value: 3}}", flows=flows))

    result = await do(talk, StartFlow("count"))

    assert spoken(result)[:3] == ["utter_cannot_handle", "utter_ask_rephrase", "utter_closing_words"]
    assert result.data["slots"]["n"] == 3.0, "what the flow set is reset when it ends"


async def test_two_flows_in_one_message_are_a_question_when_so_configured(tmp_path: Path) -> None:
    assistant = build(tmp_path, AssistantSettings(clarify_on_multiple_starts=True), domain=DOMAIN, flows=FLOWS)

    result = await do(Talk(assistant), StartFlow("other"), StartFlow("linked"))

    assert spoken(result) == ["utter_clarification_options_rasa"]
    assert result.texts == ("Which one do you mean: other or linked?",)


async def test_a_second_instance_of_a_running_flow_is_not_started(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"))

    result = await do(talk, StartFlow("trip"))

    assert spoken(result) == ["utter_ask_rephrase", "utter_ask_city"]
    assert result.task_state == "input_required"


async def test_of_two_interrupted_flows_the_topmost_is_asked_about_first(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"))
    await do(talk, StartFlow("rename"))

    both = await do(talk, StartFlow("other"))
    one = await do(talk, SetSlot("continue_interrupted_flow_confirmation", False))
    none = await do(talk, SetSlot("continue_interrupted_flow_confirmation", False))

    question = "utter_ask_continue_interrupted_flow_confirmation"
    assert (spoken(both), both.data["active_flow"]) == (["utter_other", question], "rename")
    assert (spoken(one), one.data["active_flow"]) == ([question], "trip")
    assert events(one, "flow_cancelled") == ["rename"]
    assert events(none, "flow_cancelled") == ["where", "trip"]
    assert (spoken(none), none.task_state) == (["utter_ask_continue_conversation"], "input_required")


async def test_naming_the_interrupted_flow_means_going_on(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"))
    await do(talk, StartFlow("other"))

    result = await do(talk, StartFlow("trip"))

    assert spoken(result) == ["utter_ask_city"]
    assert events(result, "flow_resumed") == ["where"]


async def test_force_slot_filling_takes_the_message_as_it_is(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("write_note"))

    result = await do(talk, CancelFlow(), StartFlow("other"), text="stop, I want to show something")

    assert spoken(result)[0] == "utter_done"
    assert {"event": "slot", "name": "note", "value": "stop, I want to show something"} in result.events


async def test_a_loop_without_end_fails_the_turn_and_not_the_worker(trips: Assistant) -> None:
    talk = Talk(trips)

    result = await do(talk, StartFlow("endless"))

    assert result.task_state == "failed"
    assert result.data["error_type"] == "step_limit"
    assert spoken(result) == ["utter_internal_error_rasa"]
    assert (await do(talk, StartFlow("other"))).task_state == "completed"


async def test_a_generator_can_not_write_what_is_controlled_confirmed_or_foreign(trips: Assistant) -> None:
    talk = Talk(trips)

    result = await do(
        talk,
        StartFlow("trip"),
        SetSlot("result", "hacked"),
        SetSlot("sure", True),
        SetSlot("note", "foreign"),
        SetSlot("continue_conversation", True),
        SetSlot("nonsense", 1),
        SetSlot("city", "Rome"),
    )

    assert result.data["slots"] == {"size": 3.0, "color": "red", "city": "Rome"}
    assert spoken(result) == ["utter_ask_sure"]


async def test_a_typed_payload_can_not_set_what_no_button_offered(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"))

    result = await talk.say("/SetSlots(open=true, result=x)")

    assert "open" not in result.data["slots"]
    assert "result" not in result.data["slots"]


async def test_an_offered_button_may_set_a_controlled_slot(tmp_path: Path) -> None:
    domain = DOMAIN.replace(
        'utter_ask_city: [{text: "Where to?"}]',
        'utter_ask_city: [{text: "Where to?", buttons: [{title: Open, payload: "/SetSlots(open=true, city=Rome)"}]}]',
    )
    talk = Talk(build(tmp_path, domain=domain, flows=FLOWS))
    first = await talk.say("trip")

    result = await talk.say("/SetSlots(open=true, city=Rome)")

    assert first.payloads == ({"buttons": [{"title": "Open", "payload": "/SetSlots(open=true, city=Rome)"}]},)
    assert result.data["slots"]["open"] is True
    assert result.data["slots"]["city"] == "Rome"


@pytest.mark.parametrize(
    ("text", "error_type", "key"),
    [
        ("", "rasa_internal_error_user_input_empty", "utter_user_input_empty_error_rasa"),
        ("x" * 421, "rasa_internal_error_user_input_too_long", "utter_user_input_too_long_error_rasa"),
    ],
)
async def test_unreadable_input_fails_when_idle_and_asks_again_inside_a_flow(
    at_bank: Talk, text: str, error_type: str, key: str
) -> None:
    idle = await at_bank.say(text)
    await at_bank.says("send money to Bob")
    inside = await at_bank.say(text)

    assert (idle.task_state, idle.data["error_type"], spoken(idle)) == ("failed", error_type, [key])
    assert (inside.task_state, spoken(inside)) == ("input_required", [key, "utter_ask_amount"])
    assert inside.data["slots"]["recipient"] == "Bob"


async def test_not_understood_while_anything_else_waits_drops_the_question(at_bank: Talk) -> None:
    await at_bank.says("show my balance")

    result = await at_bank.say("what is the weather in Paris")

    assert (result.task_state, spoken(result)) == ("rejected", ["utter_cannot_handle"])


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("let me talk to a human", ["utter_human_handoff_not_available", "utter_ask_continue_conversation"]),
        ("hello", ["utter_cannot_handle", "utter_ask_continue_conversation"]),
        ("skip", ["utter_skip_question_answer", "utter_ask_continue_conversation"]),
        ("repeat that", ["utter_balance", "utter_ask_continue_conversation"]),
    ],
)
async def test_small_interruptions_of_anything_else_ask_it_again(at_bank: Talk, text: str, keys: list[str]) -> None:
    await at_bank.says("show my balance")

    result = await at_bank.say(text)

    assert (result.task_state, spoken(result)) == ("input_required", keys)
    assert (await at_bank.say("no")).task_state == "completed"


@pytest.mark.parametrize("text", ["stop", "never mind", "thanks", "bye", "no thank you", "nothing else"])
async def test_every_way_of_saying_no_to_anything_else_completes(at_bank: Talk, text: str) -> None:
    await at_bank.says("show my balance")

    result = await at_bank.say(text)

    assert (result.task_state, spoken(result)) == ("completed", ["utter_closing_words"])
    assert result.data["persisted_slots"] == {}


async def test_saying_yes_to_anything_else_waits_for_what_it_is(at_bank: Talk) -> None:
    await at_bank.says("show my balance")

    result = await at_bank.say("yes")

    assert (result.task_state, spoken(result)) == ("input_required", ["utter_can_do_something_else"])


async def test_a_digression_that_completes_reports_no_persisted_slots(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("how much do I have?")

    assert result.task_state == "input_required"
    assert "persisted_slots" not in result.data


async def test_a_value_outside_the_range_is_refused_with_the_value(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("20000")

    assert spoken(result) == ["utter_float_slot_rejection", "utter_ask_amount"]
    assert result.texts[0] == "'20000' is not a number I can use here."


async def test_restart_forgets_everything(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("/restart")

    assert result.data["slots"] == {}
    assert result.data["active_flow"] is None
    assert events(result, "restart") == [""]


async def test_session_end_cancels_and_the_next_message_begins_a_session(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    ended = await at_bank.say("/session_end")
    begun = await at_bank.say("show my balance")

    assert ended.task_state == "completed"
    assert events(ended, "flow_cancelled") == ["transfer_money"]
    assert events(begun, "session_started") == [""]


async def test_clarify_inside_a_flow_does_not_ask_two_questions(trips: Assistant) -> None:
    talk = Talk(trips)
    await do(talk, StartFlow("trip"))

    result = await do(talk, Clarify(("other", "linked", "where", "nonsense")))

    assert spoken(result) == ["utter_clarification_options_rasa"]
    assert result.texts == ("Which one do you mean: other or linked?",)
    assert spoken(await do(talk, ChitChat())) == ["utter_cannot_handle", "utter_ask_city"]


async def test_a_response_with_no_eligible_variation_is_an_internal_error(tmp_path: Path) -> None:
    domain = DOMAIN.replace('    - {text: "It is closed."}\n', "")
    talk = Talk(build(tmp_path, domain=domain, flows=FLOWS.replace("    if: slots.open\n", "")))

    result = await do(talk, StartFlow("guarded"))

    assert (result.task_state, result.data["error_type"]) == ("failed", "no_response")


async def test_a_pattern_of_the_assistant_replaces_ours(tmp_path: Path) -> None:
    flows = FLOWS + "  pattern_completed:\n    description: Nothing else.\n    steps: [{action: utter_child}]\n"
    talk = Talk(build(tmp_path, domain=DOMAIN, flows=flows))

    assert spoken(await do(talk, StartFlow("other"))) == ["utter_other", "utter_child"]


async def test_a_session_start_of_the_assistant_runs_once_and_first(tmp_path: Path) -> None:
    flows = FLOWS + "  pattern_session_start:\n    description: Greets.\n    steps: [{action: utter_child}]\n"
    talk = Talk(build(tmp_path, domain=DOMAIN, flows=flows))

    first = await do(talk, StartFlow("other"))
    second = await do(talk, StartFlow("other"))

    assert spoken(first) == ["utter_child", "utter_other", "utter_ask_continue_conversation"]
    assert spoken(second) == ["utter_other", "utter_ask_continue_conversation"]


async def test_domain_validation_uses_its_own_question(tmp_path: Path) -> None:
    domain = DOMAIN.replace(
        "note: {type: text}",
        "note:\n    type: text\n    validation:\n      refill_utter: utter_child\n"
        "      rejections: [{if: 'slots.note contains \"x\"', utter: utter_other}]",
    )
    talk = Talk(build(tmp_path, domain=domain, flows=FLOWS))
    await do(talk, StartFlow("write_note"))

    result = await do(talk, text="xxx")

    assert spoken(result) == ["utter_other", "utter_child"]


def test_the_engine_asks_for_an_action_and_goes_on_with_its_result(bank: Assistant) -> None:
    engine: Engine = bank._engine
    state = bank._codec.new()

    engine.begin(state, [StartFlow("check_balance")], text="balance")

    assert engine.step(state) == RunAction("action_fetch_balance")
    assert engine.step(state) == RunAction("action_fetch_balance"), "asking twice changes nothing"
    engine.resume(state, ActionResult(events=[{"event": "slot", "name": "balance", "value": 12}]))
    assert engine.step(state) == WAIT
    assert state.turn.messages[0]["text"] == "You have 12 euros."
    with pytest.raises(RuntimeError, match="no action"):
        engine.resume(state, ActionResult())
