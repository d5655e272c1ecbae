"""Requests of 1.0, with the freedoms of ProtoJSON and none beyond them."""

from __future__ import annotations

from typing import Any

import pytest

from server.protocol.errors import ParamsInvalid
from server.protocol.model import (
    CancelTask,
    CreatePushConfig,
    DeletePushConfig,
    GetExtendedCard,
    GetPushConfig,
    GetTask,
    ListPushConfigs,
    ListTasks,
    Message,
    Part,
    PushConfig,
    Request,
    Role,
    SendMessage,
    State,
    SubscribeToTask,
)
from server.protocol.operations import Operation
from server.protocol.v1_0 import V1_0_DIALECT
from tests.protocol.wire import field_of, message_10, send_10


def decode(operation: Operation, params: dict[str, Any]) -> Request:
    return V1_0_DIALECT.decode(operation, params)


def listing(**params: Any) -> ListTasks:
    request = decode(Operation.LIST_TASKS, params)
    assert isinstance(request, ListTasks)
    return request


FULL = SendMessage(
    Message(
        "m1", Role.AGENT, (Part("url", "https://x", "n", "image/png"),), "c", "t", {"k": None}, ("urn:e",), ("t0",)
    ),
    wait=False,
    history_length=0,
    accepted_output_modes=("text/plain",),
    push=PushConfig("p", "https://h", "k", ("Bearer",), "x", "1.0"),
    metadata={"n": 1},
)


def test_the_smallest_send_waits_and_keeps_all_history() -> None:
    assert send_10() == SendMessage(Message("m1", Role.USER, (Part("text", "hi"),)))
    assert send_10(configuration={}) == send_10()


def test_a_full_send_in_camel_case() -> None:
    request = send_10(
        {
            "messageId": "m1",
            "role": "ROLE_AGENT",
            "parts": [{"url": "https://x", "filename": "n", "mediaType": "image/png"}],
            "contextId": "c",
            "taskId": "t",
            "metadata": {"k": None},
            "extensions": ["urn:e"],
            "referenceTaskIds": ["t0"],
        },
        tenant="ignored",
        configuration={
            "returnImmediately": True,
            "historyLength": 0,
            "acceptedOutputModes": ["text/plain"],
            "taskPushNotificationConfig": {
                "id": "p",
                "taskId": "",
                "url": "https://h",
                "token": "k",
                "authentication": {"scheme": "Bearer", "credentials": "x"},
            },
        },
        metadata={"n": 1},
    )
    assert request == FULL


def test_a_full_send_in_snake_case_with_enum_numbers() -> None:
    request = send_10(
        {
            "message_id": "m1",
            "role": 2,
            "parts": [{"url": "https://x", "filename": "n", "media_type": "image/png"}],
            "context_id": "c",
            "task_id": "t",
            "metadata": {"k": None},
            "extensions": ["urn:e"],
            "reference_task_ids": ["t0"],
        },
        configuration={
            "return_immediately": True,
            "history_length": "0",
            "accepted_output_modes": ["text/plain"],
            "task_push_notification_config": {
                "id": "p",
                "url": "https://h",
                "token": "k",
                "authentication": {"scheme": "Bearer", "credentials": "x"},
            },
        },
        metadata={"n": 1},
    )
    assert request == FULL


def test_null_and_empty_optionals_are_unset() -> None:
    unset: dict[str, Any] = dict.fromkeys(["contextId", "task_id", "metadata", "extensions", "referenceTaskIds"])
    assert send_10(message_10(**unset, surprise=1), configuration=None, metadata=None) == send_10()
    assert send_10(message_10(contextId="", taskId="")) == send_10()
    nulls: dict[str, Any] = dict.fromkeys(["returnImmediately", "historyLength", "acceptedOutputModes"])
    assert send_10(configuration={**nulls, "taskPushNotificationConfig": None}) == send_10()


def test_history_length_zero_means_none_and_return_immediately_inverts_waiting() -> None:
    assert send_10(configuration={"historyLength": 0}).history_length == 0
    assert send_10(configuration={"returnImmediately": False}).wait is True
    assert send_10(configuration={"returnImmediately": True}).wait is False


@pytest.mark.parametrize("five", [5, 5.0, "5"])
def test_integers_in_every_spelling_of_proto_json(five: Any) -> None:
    assert decode(Operation.GET_TASK, {"id": "t", "historyLength": five}) == GetTask("t", 5)
    assert listing(pageSize=five).page_size == 5


@pytest.mark.parametrize(
    ("part", "decoded"),
    [
        ({"text": ""}, Part("text", "")),
        ({"text": "a", "filename": "n", "mediaType": "text/html"}, Part("text", "a", "n", "text/html")),
        ({"text": "a", "filename": "", "mediaType": ""}, Part("text", "a")),
        ({"text": "a", "raw": None, "url": None, "data": None, "metadata": None}, Part("text", "a")),
        ({"text": "a", "metadata": {"k": None}}, Part("text", "a", metadata={"k": None})),
        ({"raw": "aGk="}, Part("raw", "aGk=")),
        ({"raw": ""}, Part("raw", "")),
        ({"raw": "aGk"}, Part("raw", "aGk=")),
        ({"raw": "_-8"}, Part("raw", "/+8=")),
        ({"raw": "_-8="}, Part("raw", "/+8=")),
        ({"raw": "aG\r\nk="}, Part("raw", "aGk=")),
        ({"url": "https://x", "mediaType": "image/png"}, Part("url", "https://x", media_type="image/png")),
        ({"data": None}, Part("data", None)),
        ({"data": None, "text": None}, Part("data", None)),
        ({"data": 0}, Part("data", 0)),
        ({"data": False}, Part("data", False)),
        (
            {"data": [1, {"a": None}], "mediaType": "application/json"},
            Part("data", [1, {"a": None}], None, "application/json"),
        ),
        ({"data": {"value": 1}, "metadata": {"k": 1}}, Part("data", {"value": 1}, metadata={"k": 1})),
    ],
)
def test_parts_of_every_content(part: Any, decoded: Part) -> None:
    assert send_10(message_10(parts=[part])).message.parts == (decoded,)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messageId": None}, "message.messageId"),
        ({"messageId": ""}, "message.messageId"),
        ({"messageId": 7}, "message.messageId"),
        ({"messageId": "x" * 513}, "message.messageId"),
        ({"messageId": "a\x00b"}, "message.messageId"),
        ({"role": None}, "message.role"),
        ({"role": "user"}, "message.role"),
        ({"role": "ROLE_UNSPECIFIED"}, "message.role"),
        ({"role": 0}, "message.role"),
        ({"role": 3}, "message.role"),
        ({"role": True}, "message.role"),
        ({"role": {}}, "message.role"),
        ({"contextId": 0}, "message.contextId"),
        ({"contextId": False}, "message.contextId"),
        ({"contextId": []}, "message.contextId"),
        ({"contextId": "x" * 513}, "message.contextId"),
        ({"taskId": "a\tb"}, "message.taskId"),
        ({"metadata": "x"}, "message.metadata"),
        ({"extensions": {}}, "message.extensions"),
        ({"reference_task_ids": [""]}, "message.referenceTaskIds[0]"),
        ({"parts": None}, "message.parts"),
        ({"parts": []}, "message.parts"),
        ({"parts": "hi"}, "message.parts"),
        ({"parts": [None]}, "message.parts[0]"),
        ({"parts": ["hi"]}, "message.parts[0]"),
        ({"parts": [{}]}, "message.parts[0]"),
        ({"parts": [{"text": None}]}, "message.parts[0]"),
        ({"parts": [{"kind": "text"}]}, "message.parts[0]"),
        ({"parts": [{"text": "a", "url": "u"}]}, "message.parts[0]"),
        ({"parts": [{"text": "a"}, {"text": "a", "data": {}}]}, "message.parts[1]"),
        ({"parts": [{"text": 1}]}, "message.parts[0].text"),
        ({"parts": [{"text": "\ud83d"}]}, "message.parts[0].text"),
        ({"parts": [{"raw": 1}]}, "message.parts[0].raw"),
        ({"parts": [{"raw": "a"}]}, "message.parts[0].raw"),
        ({"parts": [{"raw": "é==="}]}, "message.parts[0].raw"),
        ({"parts": [{"url": ""}]}, "message.parts[0].url"),
        ({"parts": [{"url": 1}]}, "message.parts[0].url"),
        ({"parts": [{"data": {"n": float("nan")}}]}, "message.parts[0].data"),
        ({"parts": [{"data": "\ud83d"}]}, "message.parts[0].data"),
        ({"parts": [{"text": "a", "filename": 1}]}, "message.parts[0].filename"),
        ({"parts": [{"text": "a", "media_type": 1}]}, "message.parts[0].mediaType"),
        ({"parts": [{"text": "a", "metadata": []}]}, "message.parts[0].metadata"),
        ({"parts": [{"text": "a"}] * 1001}, "message.parts"),
    ],
)
def test_a_wrong_message_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        send_10(message_10(**change))
    assert field_of(refused.value) == field


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "message"),
        ({"message": "hi"}, "message"),
        ({"message": message_10(), "metadata": 1}, "metadata"),
        ({"message": message_10(), "configuration": []}, "configuration"),
        ({"message": message_10(), "configuration": [1]}, "configuration"),
        ({"message": message_10(), "configuration": {"returnImmediately": "true"}}, "configuration.returnImmediately"),
        ({"message": message_10(), "configuration": {"returnImmediately": 1}}, "configuration.returnImmediately"),
        ({"message": message_10(), "configuration": {"historyLength": -1}}, "configuration.historyLength"),
        ({"message": message_10(), "configuration": {"historyLength": 1.5}}, "configuration.historyLength"),
        ({"message": message_10(), "configuration": {"historyLength": True}}, "configuration.historyLength"),
        ({"message": message_10(), "configuration": {"historyLength": " 5"}}, "configuration.historyLength"),
        ({"message": message_10(), "configuration": {"historyLength": "9999999999"}}, "configuration.historyLength"),
        (
            {"message": message_10(), "configuration": {"acceptedOutputModes": [1]}},
            "configuration.acceptedOutputModes[0]",
        ),
        (
            {"message": message_10(), "configuration": {"taskPushNotificationConfig": {"token": "k"}}},
            "configuration.taskPushNotificationConfig.url",
        ),
        (
            {
                "message": message_10(),
                "configuration": {"taskPushNotificationConfig": {"url": "u", "authentication": {"schemes": ["B"]}}},
            },
            "configuration.taskPushNotificationConfig.authentication.scheme",
        ),
    ],
)
def test_wrong_send_params_are_refused_by_their_field(params: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        decode(Operation.SEND_MESSAGE, params)
    assert field_of(refused.value) == field


def test_the_number_of_parts_is_limited_by_the_callers_choice() -> None:
    two = {"message": message_10(parts=[{"text": "a"}] * 2)}
    assert V1_0_DIALECT.decode(Operation.SEND_MESSAGE, two, max_parts=2)
    with pytest.raises(ParamsInvalid, match="more than 1 "):
        V1_0_DIALECT.decode(Operation.SEND_MESSAGE, two, max_parts=1)


def test_a_plain_listing_asks_for_fifty_tasks_without_artifacts() -> None:
    assert listing() == ListTasks(page_size=50, include_artifacts=False)


def test_a_full_listing_in_both_spellings() -> None:
    wanted = ListTasks("c", State.WORKING, 100, "tok", 0, 1767323045678, True)
    assert wanted == listing(
        contextId="c",
        status="TASK_STATE_WORKING",
        pageSize=100,
        pageToken="tok",
        historyLength=0,
        statusTimestampAfter="2026-01-02T03:04:05.678Z",
        includeArtifacts=True,
        tenant="n",
    )
    assert wanted == listing(
        context_id="c",
        status=2,
        page_size="100",
        page_token="tok",
        history_length=0.0,
        status_timestamp_after="2026-01-02T04:04:05.678+01:00",
        include_artifacts=True,
    )


def test_empty_filters_are_no_filters() -> None:
    assert listing(contextId="", pageToken="", status="TASK_STATE_UNSPECIFIED", includeArtifacts=None) == ListTasks()
    assert listing(status=0, pageToken=None, statusTimestampAfter=None) == ListTasks()


@pytest.mark.parametrize(
    ("number", "state"),
    [
        (1, State.SUBMITTED),
        (2, State.WORKING),
        (3, State.COMPLETED),
        (4, State.FAILED),
        (5, State.CANCELED),
        (6, State.INPUT_REQUIRED),
        (7, State.REJECTED),
        (8, State.AUTH_REQUIRED),
    ],
)
def test_states_by_name_and_by_number(number: int, state: State) -> None:
    assert listing(status=number).state is state
    assert listing(status=f"TASK_STATE_{state.name}").state is state


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"status": "working"}, "status"),
        ({"status": "TASK_STATE_CANCELLED"}, "status"),
        ({"status": 9}, "status"),
        ({"status": True}, "status"),
        ({"status": ["TASK_STATE_WORKING"]}, "status"),
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageSize": True}, "pageSize"),
        ({"pageSize": "ten"}, "pageSize"),
        ({"pageToken": 5}, "pageToken"),
        ({"historyLength": -1}, "historyLength"),
        ({"contextId": 1}, "contextId"),
        ({"includeArtifacts": "true"}, "includeArtifacts"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": 1767323045}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-01-02T03:04:05"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-02-30T03:04:05Z"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": "2026-01-02T03:04:05+24:00"}, "statusTimestampAfter"),
        ({"statusTimestampAfter": ""}, "statusTimestampAfter"),
    ],
)
def test_a_wrong_filter_is_refused_and_never_ignored(params: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        listing(**params)
    assert field_of(refused.value) == field


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:00z", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.001000Z", 1),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T01:30:00+01:30", 0),
        ("1969-12-31T22:30:00-01:30", 0),
    ],
)
def test_timestamps_with_any_fraction_and_offset_round_up_to_milliseconds(written: str, ms: int) -> None:
    assert listing(statusTimestampAfter=written).after_ms == ms


@pytest.mark.parametrize(
    ("operation", "params", "request_"),
    [
        (Operation.GET_TASK, {"id": "t", "historyLength": None}, GetTask("t")),
        (Operation.GET_TASK, {"id": "t", "history_length": 0}, GetTask("t", 0)),
        (Operation.CANCEL_TASK, {"id": "t", "metadata": {"why": "x"}}, CancelTask("t", {"why": "x"})),
        (Operation.SUBSCRIBE_TO_TASK, {"id": "t", "tenant": "n"}, SubscribeToTask("t")),
        (
            Operation.CREATE_PUSH_CONFIG,
            {
                "taskId": "t",
                "id": "",
                "url": "https://h",
                "token": "",
                "authentication": {"scheme": "B", "credentials": ""},
            },
            CreatePushConfig("t", PushConfig(None, "https://h", None, ("B",), None, "1.0")),
        ),
        (Operation.GET_PUSH_CONFIG, {"taskId": "t", "id": "p"}, GetPushConfig("t", "p")),
        (Operation.LIST_PUSH_CONFIGS, {"task_id": "t", "pageSize": 5}, ListPushConfigs("t")),
        (Operation.DELETE_PUSH_CONFIG, {"taskId": "t", "id": "p"}, DeletePushConfig("t", "p")),
        (Operation.GET_EXTENDED_CARD, {"tenant": "n"}, GetExtendedCard()),
    ],
)
def test_the_other_operations(operation: Operation, params: dict[str, Any], request_: Request) -> None:
    assert decode(operation, params) == request_


@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        (Operation.GET_TASK, {}, "id"),
        (Operation.GET_TASK, {"id": ""}, "id"),
        (Operation.GET_TASK, {"id": "t", "historyLength": -1}, "historyLength"),
        (Operation.CANCEL_TASK, {"id": "t", "metadata": []}, "metadata"),
        (Operation.SUBSCRIBE_TO_TASK, {"taskId": "t"}, "id"),
        (Operation.CREATE_PUSH_CONFIG, {"url": "u"}, "taskId"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t"}, "url"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "url": "u", "id": 1}, "id"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t", "url": "u", "authentication": 1}, "authentication"),
        (Operation.GET_PUSH_CONFIG, {"taskId": "t"}, "id"),
        (Operation.GET_PUSH_CONFIG, {"id": "p"}, "taskId"),
        (Operation.LIST_PUSH_CONFIGS, {"id": "t"}, "taskId"),
        (Operation.DELETE_PUSH_CONFIG, {"taskId": "t", "id": ""}, "id"),
    ],
)
def test_the_other_operations_refuse_by_field(operation: Operation, params: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        decode(operation, params)
    assert field_of(refused.value) == field


def test_every_operation_can_be_decoded() -> None:
    smallest = {"id": "t", "taskId": "t", "message": message_10(), "url": "u"}
    for operation in Operation:
        assert decode(operation, smallest)
