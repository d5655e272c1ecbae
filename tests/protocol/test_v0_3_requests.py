"""Requests of 0.3: what is accepted, what it means, and what is refused with the field's name."""

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
    Message,
    Part,
    PushConfig,
    Request,
    Role,
    SendMessage,
    SubscribeToTask,
)
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from tests.protocol.wire import field_of, message_03, send_03


def decode(operation: Operation, params: dict[str, Any]) -> Request:
    return V0_3_DIALECT.decode(operation, params)


def only_part(part: Any) -> Part:
    (decoded,) = send_03(message_03(parts=[part])).message.parts
    return decoded


def test_the_smallest_send_waits_and_keeps_all_history() -> None:
    assert send_03() == SendMessage(Message("m1", Role.USER, (Part("text", "hi"),)))


def test_a_full_send_is_read_member_by_member() -> None:
    request = send_03(
        message_03(
            role="agent",
            contextId="c",
            taskId="t",
            metadata={"k": None},
            extensions=["urn:e"],
            referenceTaskIds=["t0"],
        ),
        configuration={
            "blocking": False,
            "historyLength": 3,
            "acceptedOutputModes": ["text/plain"],
            "pushNotificationConfig": {
                "id": "p",
                "url": "https://h",
                "token": "k",
                "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "x"},
            },
        },
        metadata={"n": 1},
    )
    assert request == SendMessage(
        Message("m1", Role.AGENT, (Part("text", "hi"),), "c", "t", {"k": None}, ("urn:e",), ("t0",)),
        wait=False,
        history_length=3,
        accepted_output_modes=("text/plain",),
        push=PushConfig("p", "https://h", "k", ("Bearer", "Basic"), "x", "0.3"),
        metadata={"n": 1},
    )


def test_streaming_sends_have_the_same_params() -> None:
    assert decode(Operation.SEND_STREAMING_MESSAGE, {"message": message_03()}) == send_03()


@pytest.mark.parametrize("configuration", [None, {}, {"blocking": None}, {"blocking": True}])
def test_absent_blocking_means_waiting(configuration: Any) -> None:
    assert send_03(configuration=configuration).wait is True


def test_history_length_zero_means_everything() -> None:
    assert send_03(configuration={"historyLength": 0}).history_length is None
    assert decode(Operation.GET_TASK, {"id": "t", "historyLength": 0}) == GetTask("t", None)
    assert decode(Operation.GET_TASK, {"id": "t", "historyLength": 2}) == GetTask("t", 2)


def test_null_optionals_and_unknown_members_are_ignored() -> None:
    nulls: dict[str, Any] = dict.fromkeys(["contextId", "taskId", "metadata", "extensions", "referenceTaskIds", "kind"])
    request = send_03(message_03(**nulls, surprise=1), configuration=None, metadata=None, extra=[])
    assert request == send_03()


def test_parts_may_be_empty_by_schema() -> None:
    assert send_03(message_03(parts=[])).message.parts == ()


@pytest.mark.parametrize(
    ("part", "decoded"),
    [
        ({"kind": "text", "text": ""}, Part("text", "")),
        ({"text": "no kind"}, Part("text", "no kind")),
        ({"kind": "text", "text": "a", "file": None, "data": None}, Part("text", "a")),
        ({"kind": "text", "text": "a", "metadata": {}}, Part("text", "a", metadata={})),
        ({"kind": "file", "file": {"bytes": "aGk="}}, Part("raw", "aGk=")),
        ({"kind": "file", "file": {"bytes": "aGk"}}, Part("raw", "aGk=")),
        (
            {"kind": "file", "file": {"uri": "https://x", "name": "n", "mimeType": "image/png"}},
            Part("url", "https://x", "n", "image/png"),
        ),
        ({"file": {"uri": "https://x", "bytes": None, "name": "", "mimeType": ""}}, Part("url", "https://x")),
        ({"kind": "data", "data": {"n": 1, "z": None}}, Part("data", {"n": 1, "z": None})),
        ({"data": {}}, Part("data", {})),
    ],
)
def test_parts_of_every_content(part: Any, decoded: Part) -> None:
    assert only_part(part) == decoded


@pytest.mark.parametrize("value", [None, 1, "s", [1, {"a": 2}], True])
def test_a_wrapped_value_becomes_the_value_again(value: Any) -> None:
    wrapped: dict[str, Any] = {"kind": "data", "data": {"value": value}, "metadata": {"data_part_compat": True}}
    assert only_part(wrapped) == Part("data", value)
    wrapped["metadata"]["k"] = 1
    assert only_part(wrapped) == Part("data", value, metadata={"k": 1})


@pytest.mark.parametrize(
    ("data", "metadata"),
    [({"value": 1}, {"data_part_compat": False}), ({"value": 1, "b": 2}, {"data_part_compat": True})],
)
def test_data_that_only_looks_wrapped_stays_as_it_is(data: Any, metadata: Any) -> None:
    assert only_part({"data": data, "metadata": metadata}) == Part("data", data, metadata=metadata)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "task"}, "message.kind"),
        ({"kind": ["message"]}, "message.kind"),
        ({"messageId": None}, "message.messageId"),
        ({"messageId": ""}, "message.messageId"),
        ({"messageId": 7}, "message.messageId"),
        ({"messageId": "x" * 513}, "message.messageId"),
        ({"messageId": "a\nb"}, "message.messageId"),
        ({"messageId": "a\x85b"}, "message.messageId"),
        ({"messageId": "\ud800"}, "message.messageId"),
        ({"role": None}, "message.role"),
        ({"role": "ROLE_USER"}, "message.role"),
        ({"role": "system"}, "message.role"),
        ({"role": 1}, "message.role"),
        ({"role": ["user"]}, "message.role"),
        ({"contextId": ""}, "message.contextId"),
        ({"contextId": 5}, "message.contextId"),
        ({"contextId": "x" * 513}, "message.contextId"),
        ({"taskId": ""}, "message.taskId"),
        ({"taskId": False}, "message.taskId"),
        ({"metadata": []}, "message.metadata"),
        ({"metadata": "x"}, "message.metadata"),
        ({"metadata": {"n": float("nan")}}, "message.metadata"),
        ({"metadata": {"\ud800": 1}}, "message.metadata"),
        ({"extensions": "urn:e"}, "message.extensions"),
        ({"extensions": [1]}, "message.extensions[0]"),
        ({"extensions": ["urn:e", ""]}, "message.extensions[1]"),
        ({"referenceTaskIds": {}}, "message.referenceTaskIds"),
        ({"referenceTaskIds": [None]}, "message.referenceTaskIds[0]"),
        ({"parts": None}, "message.parts"),
        ({"parts": {}}, "message.parts"),
        ({"parts": ["hi"]}, "message.parts[0]"),
        ({"parts": [None]}, "message.parts[0]"),
        ({"parts": [{}]}, "message.parts[0]"),
        ({"parts": [{"kind": "text"}]}, "message.parts[0]"),
        ({"parts": [{"kind": "text", "text": "a"}, {"text": "a", "data": {}}]}, "message.parts[1]"),
        ({"parts": [{"kind": "data", "text": "a"}]}, "message.parts[0].kind"),
        ({"parts": [{"kind": "video", "text": "a"}]}, "message.parts[0].kind"),
        ({"parts": [{"text": 1}]}, "message.parts[0].text"),
        ({"parts": [{"text": "\udfff"}]}, "message.parts[0].text"),
        ({"parts": [{"text": "a", "metadata": 1}]}, "message.parts[0].metadata"),
        ({"parts": [{"data": [1]}]}, "message.parts[0].data"),
        ({"parts": [{"data": "s"}]}, "message.parts[0].data"),
        ({"parts": [{"data": {"n": float("inf")}}]}, "message.parts[0].data"),
        ({"parts": [{"file": "x"}]}, "message.parts[0].file"),
        ({"parts": [{"file": {}}]}, "message.parts[0].file"),
        ({"parts": [{"file": {"bytes": "aGk=", "uri": "https://x"}}]}, "message.parts[0].file"),
        ({"parts": [{"file": {"bytes": "a"}}]}, "message.parts[0].file.bytes"),
        ({"parts": [{"file": {"bytes": "a%%="}}]}, "message.parts[0].file.bytes"),
        ({"parts": [{"file": {"bytes": 5}}]}, "message.parts[0].file.bytes"),
        ({"parts": [{"file": {"uri": ""}}]}, "message.parts[0].file.uri"),
        ({"parts": [{"file": {"uri": "u", "name": 1}}]}, "message.parts[0].file.name"),
        ({"parts": [{"file": {"uri": "u", "mimeType": 1}}]}, "message.parts[0].file.mimeType"),
        ({"parts": [{"text": "a"}] * 1001}, "message.parts"),
    ],
)
def test_a_wrong_message_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        send_03(message_03(**change))
    assert field_of(refused.value) == field


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "message"),
        ({"message": "hi"}, "message"),
        ({"message": []}, "message"),
        ({"message": message_03(), "metadata": [1]}, "metadata"),
        ({"message": message_03(), "configuration": []}, "configuration"),
        ({"message": message_03(), "configuration": False}, "configuration"),
        ({"message": message_03(), "configuration": "x"}, "configuration"),
        ({"message": message_03(), "configuration": {"blocking": "true"}}, "configuration.blocking"),
        ({"message": message_03(), "configuration": {"blocking": 1}}, "configuration.blocking"),
        ({"message": message_03(), "configuration": {"historyLength": -1}}, "configuration.historyLength"),
        ({"message": message_03(), "configuration": {"historyLength": True}}, "configuration.historyLength"),
        ({"message": message_03(), "configuration": {"historyLength": "5"}}, "configuration.historyLength"),
        ({"message": message_03(), "configuration": {"historyLength": 2**31}}, "configuration.historyLength"),
        ({"message": message_03(), "configuration": {"acceptedOutputModes": "x"}}, "configuration.acceptedOutputModes"),
        (
            {"message": message_03(), "configuration": {"pushNotificationConfig": {}}},
            "configuration.pushNotificationConfig.url",
        ),
        (
            {"message": message_03(), "configuration": {"pushNotificationConfig": {"url": "u", "authentication": {}}}},
            "configuration.pushNotificationConfig.authentication.schemes",
        ),
    ],
)
def test_wrong_send_params_are_refused_by_their_field(params: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        decode(Operation.SEND_MESSAGE, params)
    assert field_of(refused.value) == field


def test_the_number_of_parts_is_limited_by_the_callers_choice() -> None:
    two = {"message": message_03(parts=[{"text": "a"}] * 2)}
    assert V0_3_DIALECT.decode(Operation.SEND_MESSAGE, two, max_parts=2)
    with pytest.raises(ParamsInvalid, match="more than 1 "):
        V0_3_DIALECT.decode(Operation.SEND_MESSAGE, two, max_parts=1)


@pytest.mark.parametrize(
    ("operation", "params", "request_"),
    [
        (Operation.GET_TASK, {"id": "t", "metadata": {"dropped": 1}}, GetTask("t")),
        (Operation.CANCEL_TASK, {"id": "t", "metadata": {"why": "x"}}, CancelTask("t", {"why": "x"})),
        (Operation.CANCEL_TASK, {"id": "t"}, CancelTask("t")),
        (Operation.SUBSCRIBE_TO_TASK, {"id": "t"}, SubscribeToTask("t")),
        (
            Operation.CREATE_PUSH_CONFIG,
            {"taskId": "t", "pushNotificationConfig": {"url": "https://h"}},
            CreatePushConfig("t", PushConfig(None, "https://h", dialect="0.3")),
        ),
        (Operation.GET_PUSH_CONFIG, {"id": "t"}, GetPushConfig("t", None)),
        (Operation.GET_PUSH_CONFIG, {"id": "t", "pushNotificationConfigId": "p"}, GetPushConfig("t", "p")),
        (Operation.LIST_PUSH_CONFIGS, {"id": "t"}, ListPushConfigs("t")),
        (Operation.DELETE_PUSH_CONFIG, {"id": "t", "pushNotificationConfigId": "p"}, DeletePushConfig("t", "p")),
        (Operation.GET_EXTENDED_CARD, {}, GetExtendedCard()),
    ],
)
def test_the_other_operations(operation: Operation, params: dict[str, Any], request_: Request) -> None:
    assert decode(operation, params) == request_


@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        (Operation.GET_TASK, {}, "id"),
        (Operation.GET_TASK, {"id": 1}, "id"),
        (Operation.GET_TASK, {"id": "t", "historyLength": -1}, "historyLength"),
        (Operation.CANCEL_TASK, {"id": ""}, "id"),
        (Operation.CANCEL_TASK, {"id": "t", "metadata": 1}, "metadata"),
        (Operation.SUBSCRIBE_TO_TASK, {"taskId": "t"}, "id"),
        (Operation.CREATE_PUSH_CONFIG, {"pushNotificationConfig": {"url": "u"}}, "taskId"),
        (Operation.CREATE_PUSH_CONFIG, {"taskId": "t"}, "pushNotificationConfig"),
        (Operation.GET_PUSH_CONFIG, {"id": "t", "pushNotificationConfigId": 1}, "pushNotificationConfigId"),
        (Operation.LIST_PUSH_CONFIGS, {}, "id"),
        (Operation.DELETE_PUSH_CONFIG, {"id": "t"}, "pushNotificationConfigId"),
    ],
)
def test_the_other_operations_refuse_by_field(operation: Operation, params: dict[str, Any], field: str) -> None:
    with pytest.raises(ParamsInvalid) as refused:
        decode(operation, params)
    assert field_of(refused.value) == field


def test_every_method_of_0_3_can_be_decoded() -> None:
    smallest = {
        "id": "t",
        "taskId": "t",
        "message": message_03(),
        "pushNotificationConfigId": "p",
        "pushNotificationConfig": {"url": "u"},
    }
    for operation in V0_3_DIALECT.methods.values():
        assert decode(operation, smallest)
