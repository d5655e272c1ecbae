"""Which exceptions official clients raise: those that their users can tell apart."""

from __future__ import annotations

import pytest

from tests.interop.environments import INSTALL_SECONDS
from tests.interop.remote import Call, ClientFailed, Sdk, Shown, new_id

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)

CODES = {
    "TaskNotFoundError": -32001,
    "TaskNotCancelableError": -32002,
    "PushNotificationNotSupportedError": -32003,
    "UnsupportedOperationError": -32004,
    "InvalidParamsError": -32602,
}
# What becomes of an error whose HTTP status is its message; the task's id in its body does not reach the user.
HTTP_ERRORS = {
    "sdk 1 JSON-RPC": "A2AClientError",
    "sdk 1 HTTP+JSON": "A2AClientError",
    "sdk 1 as 0.3": "A2AClientError",
    "sdk 0.3": "A2AClientHTTPError",
}
CALLBACK = "https://example.com/hook"


def failure(call: Call) -> Shown:
    with pytest.raises(ClientFailed) as failed:
        call.result()
    return failed.value.about


def assert_raised(sdk: Sdk, name: str, call: Call) -> Shown:
    """1.x has a class for each error; 0.3.x has one for all, with the code in it."""
    about = failure(call)
    if sdk.name == "sdk 0.3":
        assert (about["type"], about["code"]) == ("A2AClientJSONRPCError", CODES[name]), about
    else:
        assert about["type"] == name, about
    return about


def unknown_like(task_id: str) -> str:
    """An id of the same form, of a task that there is not."""
    return task_id[:-4] + ("0000" if not task_id.endswith("0000") else "1111")


@pytest.mark.parametrize("do", ["get", "cancel", "subscribe"])
def test_an_unknown_task_is_not_found(sdk: Sdk, do: str) -> None:
    known = sdk.a.send("hello")["id"]

    for task_id in (new_id(), unknown_like(known)):
        about = assert_raised(sdk, "TaskNotFoundError", sdk.b.start(do, task_id=task_id))
        if sdk.name in ("sdk 1 JSON-RPC", "sdk 1 HTTP+JSON", "sdk 0.3"):
            assert about["data"]["taskId"] == task_id


@pytest.mark.parametrize("do", ["send", "stream"])
def test_a_message_to_an_unknown_task_is_not_found(sdk: Sdk, do: str) -> None:
    call = sdk.b.start(do, text="hello", message_id=new_id(), task_id=new_id())

    assert_raised(sdk, "TaskNotFoundError", call)


def test_a_task_that_has_ended_can_not_be_canceled(sdk: Sdk) -> None:
    done = sdk.a.send("hello")

    assert_raised(sdk, "TaskNotCancelableError", sdk.b.start("cancel", task_id=done["id"]))


@pytest.mark.parametrize("do", ["send", "stream"])
def test_a_task_that_has_ended_takes_no_message(sdk: Sdk, do: str) -> None:
    done = sdk.a.send("hello")

    call = sdk.b.start(do, text="more", message_id=new_id(), task_id=done["id"])

    assert_raised(sdk, "UnsupportedOperationError", call)


def test_a_task_that_has_ended_can_not_be_subscribed_to(sdk: Sdk) -> None:
    done = sdk.a.send("hello")

    assert_raised(sdk, "UnsupportedOperationError", sdk.b.start("subscribe", task_id=done["id"]))


@pytest.mark.parametrize("do", ["send", "stream"])
def test_a_task_of_another_context_is_refused(sdk: Sdk, do: str) -> None:
    asked = sdk.a.send("ask")

    call = sdk.b.start(do, text="blue", message_id=new_id(), task_id=asked["id"], context_id=new_id())

    assert_raised(sdk, "InvalidParamsError", call)


def test_a_negative_history_length_is_refused(sdk: Sdk) -> None:
    done = sdk.a.send("hello")

    assert_raised(sdk, "InvalidParamsError", sdk.b.start("get", task_id=done["id"], history_length=-1))


@pytest.mark.parametrize("asked", [{"page_token": "nonsense"}, {"page_size": 101}, {"page_size": 0}])
def test_a_page_that_can_not_be_is_refused(sdk1: Sdk, asked: Shown) -> None:
    assert_raised(sdk1, "InvalidParamsError", sdk1.b.start("list", **asked))


def test_push_settings_are_refused_while_push_is_off(sdk: Sdk) -> None:
    done = sdk.a.send("hello")
    # The library of 0.3 can not list and delete them.
    more = () if sdk.name == "sdk 0.3" else ("push_list", "push_delete")

    for do in ("push_create", "push_get", *more):
        call = sdk.b.start(do, task_id=done["id"], callback=CALLBACK)
        assert_raised(sdk, "PushNotificationNotSupportedError", call)


@pytest.mark.parametrize("do", ["send", "stream"])
def test_a_message_with_push_settings_is_refused_while_push_is_off(sdk: Sdk, do: str) -> None:
    call = sdk.b.start(do, text="hello", message_id=new_id(), callback=CALLBACK)

    assert_raised(sdk, "PushNotificationNotSupportedError", call)


@pytest.mark.parametrize("do", ["send", "stream"])
def test_a_message_sent_again_while_it_runs_is_a_conflict_that_no_client_takes_for_an_answer(sdk: Sdk, do: str) -> None:
    message_id = new_id()
    running = sdk.a.stream("slow 60", message_id=message_id)
    task_id = running.until("status")["id"]

    about = failure(sdk.b.start(do, text="slow 60", message_id=message_id))

    assert about["type"] == HTTP_ERRORS[sdk.name]
    assert "409" in about["message"]
    assert about.get("status") == (409 if sdk.name == "sdk 0.3" else None)
    sdk.b.do("cancel", task_id=task_id)
    assert sdk.b.send("slow 60", message_id=message_id)["id"] == task_id


def test_a_message_id_used_again_with_other_content_is_refused_by_status(sdk: Sdk) -> None:
    message_id = new_id()
    sdk.a.send("one thing", message_id=message_id)

    about = failure(sdk.b.start("send", text="another thing", message_id=message_id))

    assert about["type"] == HTTP_ERRORS[sdk.name]
    assert "422" in about["message"]
