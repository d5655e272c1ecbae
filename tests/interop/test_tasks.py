"""What official clients do with tasks: get, list, cancel and follow them, on the worker that does not run them."""

from __future__ import annotations

import pytest

from tests.interop.environments import INSTALL_SECONDS
from tests.interop.remote import Sdk, Shown, new_id

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)

NUMBERS = "".join(f"{number} " for number in range(1, 31))


def conversation(sdk: Sdk) -> str:
    """The id of a task with a history: a question, and its answer."""
    asked = sdk.a.send("ask")
    return str(sdk.a.send("blue", task_id=asked["id"])["id"])


def test_a_task_is_the_same_on_both_workers(sdk: Sdk) -> None:
    answer = sdk.a.send("hello")

    there, here = sdk.b.get(answer["id"]), sdk.a.get(answer["id"])

    assert {"kind": "task", **there} == {"kind": "task", **here} == answer


def test_a_history_length_cuts_the_oldest_messages(sdk: Sdk) -> None:
    task_id = conversation(sdk)
    whole = sdk.b.get(task_id)["history"]
    assert [said["text"] for said in whole if said["role"] == "user"] == ["ask", "blue"]

    assert sdk.b.get(task_id, history_length=1)["history"] == whole[-1:]
    assert sdk.b.get(task_id, history_length=99)["history"] == whole


def test_a_history_length_of_zero_means_nothing_in_1_0_and_everything_in_0_3(sdk: Sdk) -> None:
    task_id = conversation(sdk)

    shown = sdk.b.get(task_id, history_length=0)

    assert shown["history"] == (sdk.b.get(task_id)["history"] if sdk.old else [])
    assert shown["text"] == "you said: blue"


def test_the_answer_to_a_message_has_as_much_history_as_was_asked_for(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")

    answered = sdk.b.send("blue", task_id=asked["id"], history_length=1)

    assert [said["text"] for said in answered["history"]] == ["blue"]


def test_tasks_are_listed_page_by_page_newest_first(sdk1: Sdk) -> None:
    context_id = new_id()
    ids = [sdk1.a.send(f"number {number}", context_id=context_id)["id"] for number in range(5)]

    pages: list[Shown] = []
    token = ""
    while not pages or token:
        page = sdk1.b.do("list", context_id=context_id, page_size=2, page_token=token)
        pages.append(page)
        token = page["next"]

    assert [len(page["tasks"]) for page in pages] == [2, 2, 1]
    assert [task["id"] for page in pages for task in page["tasks"]] == ids[::-1]
    assert {(page["total"], page["page_size"]) for page in pages} == {(5, 2)}


def test_tasks_are_listed_by_state_and_with_artifacts_only_on_request(sdk1: Sdk) -> None:
    context_id = new_id()
    streamed = sdk1.a.stream("stream 2", context_id=context_id).result()
    waiting = sdk1.a.send("ask", context_id=context_id)

    done = sdk1.b.do("list", context_id=context_id, state="completed")
    rich = sdk1.b.do("list", context_id=context_id, state="completed", include_artifacts=True)
    open_ones = sdk1.b.do("list", context_id=context_id, state="input_required")

    assert [(task["id"], task["artifacts"]) for task in done["tasks"]] == [(streamed["id"], [])]
    assert rich["tasks"][0]["artifacts"] == streamed["artifacts"]
    assert [task["id"] for task in open_ones["tasks"]] == [waiting["id"]]
    assert (done["total"], open_ones["total"]) == (1, 1)


def test_tasks_are_listed_without_any_filter(sdk1: Sdk) -> None:
    newest = sdk1.a.send("hello")

    page = sdk1.b.do("list")

    assert newest["id"] in [task["id"] for task in page["tasks"]]
    assert page["page_size"] == 50


def test_a_running_task_is_canceled_from_the_other_worker(sdk: Sdk) -> None:
    call = sdk.a.stream("slow 60")
    task_id = call.until("status")["id"]

    canceled = sdk.b.do("cancel", task_id=task_id)

    assert (canceled["id"], canceled["state"]) == (task_id, "canceled")
    assert call.result()["state"] == "canceled"
    assert sdk.a.get(task_id)["state"] == "canceled"


def test_a_task_that_waits_for_its_caller_is_canceled_from_the_other_worker(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")

    assert sdk.b.do("cancel", task_id=asked["id"])["state"] == "canceled"


def test_a_running_stream_is_joined_on_the_other_worker_without_gap_or_repetition(sdk: Sdk) -> None:
    running = sdk.a.stream("stream 30 0.05")
    task_id = running.until("artifact")["id"]

    joined = sdk.b.start("subscribe", task_id=task_id)
    first, *updates = joined.events()

    assert (first["kind"], first["id"], first["state"]) == ("task", task_id, "working")
    chunks = [event for event in updates if event["kind"] == "artifact"]
    assert chunks, "the subscription came too late to see anything live"
    assert (updates[-1]["kind"], updates[-1]["state"]) == ("status", "completed")
    assert [artifact["text"] for artifact in joined.result()["artifacts"]] == [NUMBERS]
    assert joined.result()["artifacts"] == running.result()["artifacts"]


def test_a_client_that_went_away_finds_its_stream_on_the_other_worker(sdk: Sdk) -> None:
    left = sdk.a.stream("stream 30 0.03")
    task_id = left.until("artifact")["id"]
    left.leave()

    found = sdk.b.start("subscribe", task_id=task_id).result()

    assert found["state"] == "completed"
    assert [artifact["text"] for artifact in found["artifacts"]] == [NUMBERS]


def test_a_subscription_that_waits_with_the_task_sees_the_next_turn(sdk: Sdk) -> None:
    asked = sdk.a.send("ask")
    waiting = sdk.b.start("subscribe", task_id=asked["id"])
    assert waiting.until("task")["state"] == "input_required"

    sdk.a.send("blue", task_id=asked["id"])

    ended = waiting.result()
    assert (ended["state"], ended["text"]) == ("completed", "you said: blue")
