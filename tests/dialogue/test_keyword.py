"""The keyword generator: how a message is read, in which situation."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.dialogue.assistant import Assistant
from server.dialogue.generate.extract import one_edit
from server.dialogue.generate.language import english, split
from tests.dialogue.builders import Talk, build, spoken


@pytest.mark.parametrize(
    ("said", "amount"),
    [
        ("50", 50.0),
        ("it's 1,200.50 please", 1200.5),
        ("1 200", 1200.0),
        ("2k", 2000.0),
        ("€75", 75.0),
        ("$ 12.5", 12.5),
        ("twelve", 12.0),
        ("about 20 euros.", 20.0),
    ],
)
async def test_numbers_are_read_as_people_write_them(at_bank: Talk, said: str, amount: float) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say(said)

    written = [e["value"] for e in result.events if e["event"] == "slot" and e["name"] == "amount"]
    assert written[0] == amount


@pytest.mark.parametrize("said", ["12,50", "A-12", "7up", "lots", "minus"])
async def test_what_is_not_clearly_a_number_is_asked_again(at_bank: Talk, said: str) -> None:
    await at_bank.says("send money to Bob")

    assert spoken(await at_bank.say(said)) == ["utter_ask_rephrase", "utter_ask_amount"]


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("dermatology", "dermatology"),
        ("I think Cardiology.", "cardiology"),
        ("my heart", "cardiology"),
        ("dermatolgy", "dermatology"),
        ("the second one", "cardiology"),
        ("the last", "surgery"),
    ],
)
async def test_a_category_is_found_by_word_synonym_typo_or_position(at_clinic: Talk, said: str, value: str) -> None:
    await at_clinic.says("book an appointment", "P-1234")

    assert (await at_clinic.say(said)).data["slots"]["specialty"] == value


async def test_two_categories_are_as_good_as_none(at_clinic: Talk) -> None:
    await at_clinic.says("book an appointment", "P-1234")

    result = await at_clinic.say("cardiology or surgery")

    assert spoken(result) == ["utter_ask_rephrase", "utter_ask_specialty"]


@pytest.mark.parametrize(("said", "value"), [("my number is P-1234, thanks", "P-1234"), ("it's P-9", "P-9")])
async def test_a_slot_with_a_pattern_is_found_inside_a_sentence(at_clinic: Talk, said: str, value: str) -> None:
    await at_clinic.says("book an appointment")

    result = await at_clinic.say(said)

    assert {"event": "slot", "name": "patient_id", "value": value} in result.events


@pytest.mark.parametrize(
    ("said", "recipient"),
    [
        ("Bob", "Bob"),
        ("to Ana Maria.", "Ana Maria"),
        ("my name is Bob", "Bob"),
        ("It's the grocery store", "the grocery store"),
    ],
)
async def test_a_text_answer_loses_its_opening_words(at_bank: Talk, said: str, recipient: str) -> None:
    await at_bank.says("send money")

    assert (await at_bank.say(said)).data["slots"]["recipient"] == recipient


@pytest.mark.parametrize("said", ["transfer money", "send money", "money"])
async def test_the_flows_own_words_are_no_answer_to_a_text_question(at_bank: Talk, said: str) -> None:
    await at_bank.says("send money")

    assert spoken(await at_bank.say(said)) == ["utter_ask_rephrase", "utter_ask_recipient"]


async def test_a_question_about_another_flow_is_a_digression_from_a_text_question(at_bank: Talk) -> None:
    await at_bank.says("send money")

    result = await at_bank.say("can you show me the balance of my account?")

    assert spoken(result)[0] == "utter_balance"


async def test_a_long_answer_fills_more_than_the_question(at_clinic: Talk) -> None:
    await at_clinic.says("book an appointment", "P-1234")

    result = await at_clinic.say("cardiology on friday afternoon please")

    slots = result.data["slots"]
    assert (slots["specialty"], slots["day"], slots["day_part"]) == ("cardiology", "friday", "afternoon")
    assert spoken(result) == [None, "utter_ask_booking_confirmed"]


async def test_an_answer_and_another_flow_in_one_message(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("50, and show my balance")

    assert result.data["slots"]["amount"] == 50.0
    assert spoken(result) == ["utter_balance", "utter_ask_continue_interrupted_flow_confirmation"]


@pytest.mark.parametrize(
    "said", ["stop", "please cancel", "ok forget it", "Never mind!", "cancel the money transfer", "stop the music"]
)
async def test_ways_to_cancel(at_bank: Talk, said: str) -> None:
    await at_bank.says("send money to Bob")

    assert (await at_bank.say(said)).task_state == "canceled"


async def test_do_not_stop_is_not_a_cancel(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    assert (await at_bank.say("don't stop")).task_state == "input_required"


async def test_cancel_my_appointment_inside_booking_cancels_the_booking(at_clinic: Talk) -> None:
    await at_clinic.says("book an appointment")

    assert (await at_clinic.say("cancel my appointment")).task_state == "canceled"


async def test_cancel_something_else_starts_the_flow_about_cancelling(tmp_path: Path) -> None:
    talk = Talk(
        build(
            tmp_path,
            domain="slots: {a: {type: text}, b: {type: text}}\n"
            "responses: {utter_ask_a: [{text: a}], utter_ask_b: [{text: b}]}",
            flows="""
            flows:
              order_food: {description: Order food., steps: [{collect: a}]}
              cancel_visit: {description: Cancel a visit., steps: [{collect: b}]}
            """,
        )
    )
    await talk.says("order food")

    result = await talk.say("cancel my visit")

    assert (result.data["active_flow"], spoken(result)) == ("cancel_visit", ["utter_ask_b"])


@pytest.mark.parametrize(
    ("said", "slot", "value"),
    [
        ("sorry, I meant James", "recipient", "James"),
        ("actually make it 20", "amount", 20.0),
        ("wait, no, 20 euros", "amount", 20.0),
        ("change the recipient to James", "recipient", "James"),
        ("change the amount to 30", "amount", 30.0),
        ("no, the recipient should be Ana Maria", "recipient", "Ana Maria"),
    ],
)
async def test_corrections_find_their_slot(at_bank: Talk, said: str, slot: str, value: object) -> None:
    await at_bank.says("send 50 euros to Bob")

    result = await at_bank.say(said)

    assert result.data["slots"][slot] == value
    assert spoken(result) == ["utter_corrected_previous_input", "utter_ask_transfer_confirmed"]


async def test_change_without_a_value_asks_again(at_bank: Talk) -> None:
    await at_bank.says("send 50 euros to Bob")

    assert spoken(await at_bank.say("change the recipient")) == ["utter_ask_recipient"]


async def test_a_correction_word_before_the_answer_is_still_the_answer(at_bank: Talk) -> None:
    await at_bank.says("send money to Bob")

    result = await at_bank.say("actually 30")

    assert result.data["slots"]["recipient"] == "Bob"
    assert result.data["slots"]["amount"] == 30.0


@pytest.mark.parametrize("said", ["yes", "Yes, please send it", "ok", "ok, fine", "ok sure", "that's right"])
async def test_a_clear_yes_confirms(at_bank: Talk, said: str) -> None:
    await at_bank.says("send 50 euros to Bob")

    assert (await at_bank.say(said)).data.get("persisted_slots") == {"transfer_status": "executed"}


@pytest.mark.parametrize(
    "said",
    [
        "ok no",
        "correct the amount",
        "ok wait",
        "yes but no",
        "yes?",
        "right now I don't know",
        "fine, but how much is it",
        "sure, not now",
        "confirm the balance",
        "I'm not sure",
        "yes I mean no",
        "yes but to James",
    ],
)
async def test_a_yes_with_something_against_it_moves_no_money(at_bank: Talk, said: str) -> None:
    await at_bank.says("send 50 euros to Bob")

    result = await at_bank.say(said)

    assert "receipt" not in result.data["slots"]


@pytest.mark.parametrize("said", ["one second", "just a moment", "one moment please"])
async def test_a_request_for_patience_is_no_number(at_bank: Talk, said: str) -> None:
    await at_bank.says("send money to Bob")

    assert "amount" not in (await at_bank.say(said)).data["slots"]


async def test_a_request_for_patience_is_no_choice(at_clinic: Talk) -> None:
    await at_clinic.says("book an appointment", "P-1234")

    assert "specialty" not in (await at_clinic.say("just a second")).data["slots"]


async def test_stop_words_alone_start_nothing(at_bank: Talk) -> None:
    assert (await at_bank.say("how much is it")).task_state == "rejected"


async def test_a_message_equal_to_an_example_starts_its_flow_even_if_it_is_only_stop_words(at_bank: Talk) -> None:
    assert spoken(await at_bank.say("How much do I have?"))[0] == "utter_balance"


@pytest.mark.parametrize(
    ("said", "flow"),
    [("the first one", "book_appointment"), ("book", "book_appointment"), ("second", "cancel_appointment")],
)
async def test_an_offered_flow_is_chosen_by_name_or_position(at_clinic: Talk, said: str, flow: str) -> None:
    await at_clinic.says("appointment")

    assert (await at_clinic.say(said)).data["active_flow"] == flow


async def test_a_guarded_flow_neither_starts_nor_competes(tmp_path: Path) -> None:
    talk = Talk(
        build(
            tmp_path,
            domain="slots: {open: {type: bool, mappings: [{type: controlled}]}}\nresponses: {utter_a: [{text: a}]}",
            flows="""
            flows:
              paint_house: {description: Paint., if: slots.open, steps: [{action: utter_a}]}
              sell_house: {description: Sell., steps: [{action: utter_a}]}
            """,
        )
    )

    assert (await talk.say("paint house")).data["active_flow"] is None
    assert (await talk.say("house")).task_state == "completed", "alone, the shared word is enough"
    assert spoken(await Talk(talk.assistant).say("house", seed={"open": True})) == ["utter_clarification_options_rasa"]


async def test_the_settings_of_the_pipeline_entry_are_used(tmp_path: Path) -> None:
    talk = Talk(
        build(
            tmp_path,
            domain="slots: {size: {type: categorical, values: [small, large]}}\n"
            "responses: {utter_ask_size: [{text: s}]}",
            flows="flows:\n  order: {description: Order., steps: [{collect: size}]}",
            config="""
            pipeline:
              - name: KeywordCommandGenerator
                keywords: {order: [espresso]}
                synonyms: {size: {small: [tiny]}}
                lexicon: {cancel: [basta]}
            """,
        )
    )

    assert (await talk.say("espresso")).data["active_flow"] == "order"
    assert spoken(await talk.say("stop")) == ["utter_ask_rephrase", "utter_ask_size"]
    assert (await talk.say("basta")).task_state == "canceled"
    assert (await talk.say("a tiny espresso")).task_state == "completed"


async def test_the_same_message_in_the_same_state_gives_the_same_result(bank: Assistant) -> None:
    first, second = Talk(bank), Talk(bank)
    for text in ("send money to Bob", "50", "sorry, I meant James", "yes"):
        assert await first.say(text) == await second.say(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("booked", "booking"),
        ("cancelled", "cancel"),
        ("cities", "city"),
        ("hours", "hour"),
        ("opening", "open"),
        ("stopped", "stop"),
    ],
)
def test_forms_of_a_word_share_their_stem(one: str, other: str) -> None:
    language = english()

    assert language.stem(one) == language.stem(other)


def test_words_keep_their_apostrophes_and_hyphens() -> None:
    assert [word.text for word in split("Don’t send P-1234, it's wrong!")] == [
        "don't",
        "send",
        "p-1234",
        "it's",
        "wrong",
    ]


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        ("abcde", "abcde", True),
        ("abcde", "abxde", True),
        ("abcde", "abde", True),
        ("abcde", "abdce", True),
        ("abcde", "axxde", False),
        ("abcde", "abc", False),
    ],
)
def test_one_edit(a: str, b: str, near: bool) -> None:
    assert one_edit(a, b) is near
    assert one_edit(b, a) is near
