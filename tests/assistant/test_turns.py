"""What an orchestrator sees of the flow assistant: streams, slots it sends along, cancels, skills, superseded tasks."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.assistant.conftest import Talk, Tea
from tests.support.client import Answer, Wire
from tests.support.fleet import Fleet
from tests.support.wait import wait_for_state, wait_until

BOTH = pytest.mark.parametrize("wire", ["0.3", "1.0"])
PATIENT = {"slots": {"patient_id": "P-1234"}}
BOOKING = "book a cardiology appointment on friday morning"


@BOTH
async def test_chunks_of_a_streaming_action_are_artifact_updates_on_a_stream(
    http: httpx.AsyncClient, clinic: Fleet, wire: Wire
) -> None:
    talk = Talk(http, clinic, wire)

    async with talk.next.stream(context=talk.context, parts=talk.parts(BOOKING, PATIENT)) as reader:
        items = await reader.rest()

    assert [item.kind for item in items] == ["task", "status", "artifact", "artifact", "artifact", "status"]
    pieces = [item for item in items if item.kind == "artifact"]
    assert [item.text for item in pieces] == ["Looking for a free visit ", "on friday morning.", ""]
    assert [bool(item.raw.get("append")) for item in pieces] == [False, True, True]
    assert [bool(item.raw.get("lastChunk")) for item in pieces] == [False, False, True]
    assert len({item.raw["artifact"]["artifactId"] for item in pieces}) == 1
    assert [item.state for item in items if item.kind == "status"] == ["working", "input_required"]
    # A client that reads nothing but the final message misses nothing.
    assert items[-1].text == "Looking for a free visit on friday morning.\nBook cardiology on friday morning?"


@BOTH
async def test_a_blocking_send_gets_the_same_words_once(http: httpx.AsyncClient, clinic: Fleet, wire: Wire) -> None:
    talk = Talk(http, clinic, wire)

    task = (await talk.next.send(context=talk.context, parts=talk.parts(BOOKING, PATIENT))).task

    assert task.state == "input_required"
    assert task.text == "Looking for a free visit on friday morning.\nBook cardiology on friday morning?"
    assert task.artifacts == []


@BOTH
async def test_a_send_that_does_not_wait_leaves_the_chunks_to_whoever_looks(
    http: httpx.AsyncClient, clinic: Fleet, wire: Wire
) -> None:
    talk = Talk(http, clinic, wire)

    begun = (await talk.next.send(context=talk.context, parts=talk.parts(BOOKING, PATIENT), wait=False)).task

    ended = await wait_for_state(talk.speakers, begun.id, "input_required")
    assert ended.artifacts == ["Looking for a free visit on friday morning."]


async def sent(talk: Talk, text: str, *data: dict[str, Any], request: Any = None, **members: Any) -> Answer:
    speaker = talk.next
    params = speaker.send_params(context=talk.context, parts=talk.parts(text, *data), **members)
    return await speaker.call("send", {**params, **({"metadata": request} if request is not None else {})})


@BOTH
@pytest.mark.parametrize("marker", ['\nSLOTS: {"recipient": "Ann"}', '\n```json\n{"recipient": "Ann"}\n```'])
async def test_slots_in_the_text_are_taken_and_the_marker_is_not_heard(
    http: httpx.AsyncClient, bank: Fleet, wire: Wire, marker: str
) -> None:
    talk = Talk(http, bank, wire)

    first = (await sent(talk, "send money" + marker)).task
    # The words beside a marker answer the question; the marker itself is no part of the answer.
    second = (await sent(talk, '20\nSLOTS: {"unknown": 1}')).task

    assert (first.text, first.data["slots"]) == ("How many euros should Ann get?", {"recipient": "Ann"})
    assert second.text == "Send 20 euros to Ann?"


@BOTH
async def test_later_shapes_win_and_every_shape_fills_what_the_others_left(
    http: httpx.AsyncClient, bank: Fleet, wire: Wire
) -> None:
    talk = Talk(http, bank, wire)

    answer = await sent(
        talk,
        'send money\nSLOTS: {"recipient": "Text", "amount": 1}',
        {"slots": {"amount": "3"}},
        request={"slots": {"recipient": "Request", "amount": 9}},
        metadata={"slots": {"recipient": "Message"}},
    )

    assert answer.task.text == "Send 3 euros to Message?"
    assert answer.task.data["slots"] == {"recipient": "Message", "amount": 3.0, "funds_ok": True}


async def test_the_users_own_words_win_over_the_orchestrator_for_that_turn(
    http: httpx.AsyncClient, bank: Fleet
) -> None:
    talk = Talk(http, bank, "1.0")

    task = (await sent(talk, "send 50 euros to Bob", {"slots": {"recipient": "Ann"}})).task

    assert task.data["slots"]["recipient"] == "Bob"


async def test_values_that_do_not_fit_are_skipped_and_said_in_the_log(http: httpx.AsyncClient, bank: Fleet) -> None:
    talk = Talk(http, bank, "1.0")
    slots = {"transfer_status": "maybe", "amount": "none", "nonsense": 1, "recipient": "Ann"}

    task = (await sent(talk, "send money", {"slots": slots})).task

    assert task.data["slots"] == {"recipient": "Ann"}
    assert "a2a_server.message_adapter.skip_slot.invalid_value" in bank.nodes[0].log


async def test_only_allowed_slots_can_be_sent_along_and_an_empty_list_allows_none(
    http: httpx.AsyncClient, clinic: Fleet, curt_clinic: Fleet
) -> None:
    slots = {"slots": {"patient_id": "P-1234", "booking_status": "booked"}}

    some = (await sent(Talk(http, clinic, "1.0"), "book an appointment", slots)).task
    none = (await sent(Talk(http, curt_clinic, "1.0"), "book an appointment", slots)).task

    assert some.data["slots"] == {"patient_id": "P-1234"}
    assert none.data["slots"] == {}
    assert none.text == "What is your patient number?"


@BOTH
async def test_conversation_repair_is_the_assistants_or_the_orchestrators(
    http: httpx.AsyncClient, clinic: Fleet, curt_clinic: Fleet, wire: Wire
) -> None:
    states = {}
    for name, fleet in (("on", clinic), ("off", curt_clinic)):
        talk = Talk(http, fleet, wire)
        states[name] = [(await sent(talk, text)).task.state for text in ("appointment", "book an appointment")]

    # The question which of two was meant: with repair it waits for the answer, without it is the orchestrator's.
    assert states == {"on": ["input_required", "input_required"], "off": ["completed", "input_required"]}


@BOTH
async def test_a_cancel_of_a_waiting_task_cancels_its_flow_on_any_worker(
    http: httpx.AsyncClient, bank: Fleet, wire: Wire
) -> None:
    talk = Talk(http, bank, wire)
    waiting = (await sent(talk, "send money to Bob")).task

    canceled = (await talk.next.cancel(waiting.id)).task
    after = (await sent(talk, "send money")).task

    assert (canceled.state, canceled.text) == ("canceled", "")
    assert canceled.data == {"state": "canceled", "active_flow": None, "slots": {}, "canceled_flow": "transfer_money"}
    assert (after.state, after.text) == ("input_required", "Who should get the money?")


@BOTH
async def test_a_cancel_of_a_running_turn_stops_its_action_and_cancels_the_flow(
    http: httpx.AsyncClient, tea: Tea, wire: Wire
) -> None:
    talk = Talk(http, tea.fleet, wire)
    await sent(talk, "order tea")
    async with talk.next.stream(context=talk.context, parts=talk.parts("slow")) as reader:
        begun = await reader.next()
        await wait_until(lambda: tea.is_brewing(talk.context), what="the action")

        canceled = (await talk.next.cancel(begun.id)).task
        rest = await reader.rest()

    assert (canceled.state, canceled.data["canceled_flow"]) == ("canceled", "order_tea")
    assert rest[-1].state == "canceled"
    again = (await sent(talk, "order tea")).task
    assert (again.state, again.text, again.data["slots"]) == ("input_required", "Which tea?", {})


@BOTH
async def test_a_skill_named_in_the_metadata_starts_its_flow_in_an_idle_context(
    http: httpx.AsyncClient, clinic: Fleet, wire: Wire
) -> None:
    talk = Talk(http, clinic, wire)

    started = (await sent(talk, "tuesday", metadata={"skill": "book_appointment"})).task
    busy = (await sent(talk, "P-1234", metadata={"skill": "opening_hours"})).task

    assert (started.state, started.data["active_flow"]) == ("input_required", "book_appointment")
    assert busy.data["active_flow"] == "book_appointment"
    assert busy.data["slots"]["patient_id"] == "P-1234"


@BOTH
@pytest.mark.parametrize(
    ("skill", "reason"), [("make_coffee", "unknown_skill"), ("identify_patient", "skill_not_available")]
)
async def test_a_skill_that_is_not_offered_is_rejected(
    http: httpx.AsyncClient, clinic: Fleet, wire: Wire, skill: str, reason: str
) -> None:
    talk = Talk(http, clinic, wire)

    refused = (await sent(talk, "hello", request={"skill": skill})).task
    after = (await sent(talk, "when are you open?")).task

    assert (refused.state, refused.data["reason"]) == ("rejected", reason)
    assert after.state == "completed"


@BOTH
async def test_a_new_message_closes_the_task_that_waited_and_its_stream(
    http: httpx.AsyncClient, bank: Fleet, wire: Wire
) -> None:
    talk = Talk(http, bank, wire)
    first = (await sent(talk, "send money")).task
    async with talk.next.subscribe(first.id) as reader:
        assert (await reader.next()).state == "input_required"

        second = (await sent(talk, "Bob")).task
        rest = await reader.rest()

    closed = (await talk.next.get(first.id)).task
    assert (rest[-1].state, closed.state) == ("completed", "completed")
    assert closed.metadata["superseded_by"] == rest[-1].metadata["superseded_by"] == second.id
    assert (second.state, second.text) == ("input_required", "How many euros should Bob get?")


async def test_an_answer_that_names_the_task_goes_on_with_it(http: httpx.AsyncClient, bank: Fleet) -> None:
    talk = Talk(http, bank, "1.0")
    first = (await sent(talk, "send money")).task

    second = (await sent(talk, "Bob", task=first.id)).task

    assert second.id == first.id
    assert second.text == "How many euros should Bob get?"
    assert second.history == ["send money", "Who should get the money?", "Bob"]


async def test_a_fast_orchestrator_gets_its_turns_in_order(http: httpx.AsyncClient, bank: Fleet) -> None:
    """Sent at once to three workers: whatever the order of arrival, no turn is lost and none sees half a dialogue."""
    talk = Talk(http, bank, "1.0")
    await sent(talk, "send money")

    answers = await asyncio.gather(*(sent(talk, text) for text in ("Bob", "20", "yes")))

    assert {answer.task.state for answer in answers} <= {"input_required", "completed", "canceled", "rejected"}
    last = (await sent(talk, "show my balance")).task
    assert "You have 100 euros." in last.text
