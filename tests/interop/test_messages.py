"""What official clients see of a message's turn: the answer, the stream, the conversation."""

from __future__ import annotations

import pytest

from tests.interop.environments import INSTALL_SECONDS
from tests.interop.remote import Sdk, Shown, new_id

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)

TRANSPORTS = {
    "sdk 1 JSON-RPC": "JsonRpcTransport",
    "sdk 1 HTTP+JSON": "RestTransport",
    "sdk 1 as 0.3": "CompatJsonRpcTransport",
    "sdk 0.3": "JsonRpcTransport",
}
# Line ends to some readers of streams, though not to JSON.
ODD = "a\u2028b\u2029c\u0085d ü 😀"


def test_a_client_is_built_from_the_card_alone(sdk: Sdk) -> None:
    card = sdk.b.do("card")

    assert (card["name"], card["version"], card["skills"]) == ("Interop", "7.8.9", ["obey"])
    assert (card["streaming"], card["push"]) == (True, False)
    assert card["transport"] == TRANSPORTS[sdk.name]
    assert card["url"] == sdk.b.url


def test_a_message_is_answered_with_its_completed_task(sdk: Sdk) -> None:
    answer = sdk.a.send("hello")

    assert (answer["kind"], answer["state"], answer["text"]) == ("task", "completed", "echo: hello")
    assert answer["id"]
    assert answer["context_id"]
    assert answer["timed"]
    assert [said["text"] for said in answer["history"]] == ["hello"]


def test_a_message_that_is_not_waited_for_is_answered_with_its_running_task(sdk: Sdk) -> None:
    answer = sdk.a.send("slow 0.3", wait=False)

    assert answer["state"] in ("submitted", "working")
    ended = sdk.b.start("subscribe", task_id=answer["id"]).result()
    assert (ended["id"], ended["state"]) == (answer["id"], "completed")


def test_a_stream_shows_every_event_and_folds_to_the_stored_task(sdk: Sdk) -> None:
    call = sdk.a.stream("stream 5")
    first, *updates = call.events()
    folded = call.result()

    assert (first["kind"], first["state"]) == ("task", "submitted")
    assert [event["kind"] for event in updates] == ["status", "status", *["artifact"] * 5, "status"]
    assert [event["state"] for event in updates[:2]] == ["working", "working"]
    assert {(event["id"], event["context_id"]) for event in updates} == {(first["id"], first["context_id"])}
    chunks = updates[2:-1]
    assert "".join(chunk["text"] for chunk in chunks) == "1 2 3 4 5 "
    assert [chunk["append"] for chunk in chunks] == [False, True, True, True, True]
    assert [chunk["last"] for chunk in chunks] == [False, False, False, False, True]
    assert (updates[-1]["state"], updates[-1]["text"]) == ("completed", "counted")
    assert [artifact["text"] for artifact in folded["artifacts"]] == ["1 2 3 4 5 "]
    assert stored(folded) == stored(sdk.b.get(first["id"]))


def test_only_the_last_update_of_a_stream_is_final_for_0_3(sdk: Sdk) -> None:
    events = sdk.a.stream("slow 0").events()

    finals = [event["final"] for event in events if event["kind"] == "status"]
    # The compatible client shows 1.0 objects, which have no such member.
    assert finals == ([False, False, True] if sdk.name == "sdk 0.3" else [None] * 3)


def test_an_answer_to_a_question_continues_its_task_on_the_other_worker(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")
    assert (asked["state"], asked["text"]) == ("input_required", "Which colour?")

    answered = sdk.b.send("blue", task_id=asked["id"], context_id=asked["context_id"])

    assert (answered["id"], answered["context_id"]) == (asked["id"], asked["context_id"])
    assert (answered["state"], answered["text"]) == ("completed", "you said: blue")
    assert [said["text"] for said in answered["history"] if said["role"] == "user"] == ["ask", "blue"]


def test_an_answer_that_names_only_its_task_inherits_the_context(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")

    answered = sdk.b.send("red", task_id=asked["id"])

    assert (answered["id"], answered["context_id"]) == (asked["id"], asked["context_id"])
    assert (answered["state"], answered["text"]) == ("completed", "you said: red")


def test_an_answer_that_names_only_its_context_is_a_new_task_of_the_same_conversation(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")

    answered = sdk.b.send("green", context_id=asked["context_id"])

    assert answered["id"] != asked["id"]
    assert answered["context_id"] == asked["context_id"]
    assert (answered["state"], answered["text"]) == ("completed", "you said: green")


def test_a_streamed_conversation_closes_at_the_question_and_goes_on_with_the_task(sdk: Sdk) -> None:
    asking = sdk.a.stream("ask")
    asked = asking.result()
    assert asked["state"] == "input_required"

    call = sdk.b.stream("blue", task_id=asked["id"], context_id=asked["context_id"])
    first, *updates = call.events()

    assert (first["kind"], first["id"]) == ("task", asked["id"])
    assert {event["kind"] for event in updates} == {"status"}
    answered = call.result()
    assert (answered["state"], answered["text"]) == ("completed", "you said: blue")


def test_characters_that_some_readers_take_for_line_ends_arrive(sdk: Sdk) -> None:
    sent = sdk.a.send(ODD)
    streamed = sdk.b.stream(ODD).result()

    assert sent["text"] == streamed["text"] == f"echo: {ODD}"
    assert sdk.b.get(sent["id"])["history"][0]["text"] == ODD


@pytest.mark.parametrize("state", ["failed", "rejected", "auth_required"])
def test_every_end_of_a_turn_arrives_with_its_words(sdk: Sdk, state: str) -> None:
    sent, streamed = sdk.a.send(f"end {state}"), sdk.a.stream(f"end {state}").result()

    assert (sent["state"], sent["text"]) == (streamed["state"], streamed["text"]) == (state, f"this is {state}")


def test_an_agent_that_crashes_fails_its_task_and_says_with_what(sdk: Sdk) -> None:
    sent, streamed = sdk.a.send("end crash"), sdk.a.stream("end crash").result()

    about = [{"error_type": "RuntimeError", "error_info": "out of paper"}]
    assert (sent["state"], sent["data"]) == (streamed["state"], streamed["data"]) == ("failed", about)


def test_a_direct_message_is_an_answer_and_a_stream_of_its_own(direct: Sdk) -> None:
    sent = direct.a.send("hello")
    events = direct.b.stream("hello").events()

    for message in (sent, *events):
        assert (message["kind"], message["role"], message["text"]) == ("message", "agent", "direct: hello")
        assert message["context_id"]
    assert len(events) == 1


def test_an_agent_with_direct_messages_still_has_tasks(direct: Sdk) -> None:
    sent = direct.a.send("ask")
    first, *updates = direct.b.stream("stream 2").events()

    assert (sent["kind"], sent["state"]) == ("task", "input_required")
    assert first["kind"] == "task"
    assert [event["text"] for event in updates if event["kind"] == "artifact"] == ["1 ", "2 "]
    assert (updates[-1]["kind"], updates[-1]["state"]) == ("status", "completed")


def test_data_and_files_come_back_as_they_were_sent(sdk: Sdk) -> None:
    parts = [
        {"data": {"deep": {"list": ["a", True, None]}, "ü": 1.5}},
        {"raw": "00ff10", "filename": "a.bin", "media_type": "application/octet-stream"},
        {"uri": "https://example.com/b.txt", "filename": "b.txt", "media_type": "text/plain"},
    ]

    answer = sdk.a.send("mirror", parts=parts)

    assert answer["text"] == "mirror"
    assert answer["data"] == [{"deep": {"list": ["a", True, None]}, "ü": 1.5}]
    assert answer["raw"] == ["00ff10"]
    assert answer["uris"] == ["https://example.com/b.txt"]
    assert answer["files"] == [["a.bin", "application/octet-stream"], ["b.txt", "text/plain"]]


def test_a_message_sent_again_is_answered_with_the_same_task_by_any_worker(sdk: Sdk) -> None:
    message_id = new_id()

    first = sdk.a.send("once", message_id=message_id)
    again = sdk.b.send("once", message_id=message_id)
    streamed = sdk.b.stream("once", message_id=message_id).result()

    assert first == again
    assert streamed["id"] == first["id"]


def stored(task: Shown) -> Shown:
    """The task without its history: a client that folds adds status messages to it as it likes."""
    return {name: value for name, value in task.items() if name != "history"}
