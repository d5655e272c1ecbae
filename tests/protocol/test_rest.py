"""HTTP+JSON calls become the same requests as their JSON-RPC twins."""

from __future__ import annotations

from typing import Any

import pytest

from server.protocol.model import (
    CancelTask,
    CreatePushConfig,
    DeletePushConfig,
    GetExtendedCard,
    GetPushConfig,
    GetTask,
    ListPushConfigs,
    ListTasks,
    PushConfig,
    Request,
    State,
    SubscribeToTask,
)
from server.protocol.operations import Operation
from server.protocol.rest import rest_params, rest_result
from server.protocol.v1_0 import V1_0_DIALECT
from tests.protocol.samples import PLAIN
from tests.protocol.wire import message_10, send_10

NO_QUERY: list[tuple[str, str]] = []


@pytest.mark.parametrize(
    ("operation", "path", "query", "body", "request_"),
    [
        (Operation.GET_TASK, {"id": "t"}, NO_QUERY, None, GetTask("t")),
        (Operation.GET_TASK, {"id": "t"}, [("historyLength", "5"), ("unknown", "x")], None, GetTask("t", 5)),
        (Operation.GET_TASK, {"id": "t"}, [("id", "other")], None, GetTask("t")),
        (
            Operation.LIST_TASKS,
            {},
            [
                ("contextId", "c"),
                ("status", "TASK_STATE_WORKING"),
                ("pageSize", "10"),
                ("pageToken", "tok"),
                ("historyLength", "0"),
                ("statusTimestampAfter", "1970-01-01T00:00:01Z"),
                ("includeArtifacts", "true"),
                ("A2A-Version", "1.0"),
            ],
            None,
            ListTasks("c", State.WORKING, 10, "tok", 0, 1000, True),
        ),
        (Operation.LIST_TASKS, {"tenant": "n"}, [("include_artifacts", "false")], None, ListTasks()),
        (Operation.CANCEL_TASK, {"id": "t"}, NO_QUERY, None, CancelTask("t")),
        (
            Operation.CANCEL_TASK,
            {"id": "t"},
            NO_QUERY,
            {"id": "other", "metadata": {"a": 1}},
            CancelTask("t", {"a": 1}),
        ),
        (Operation.CANCEL_TASK, {"id": "t"}, NO_QUERY, {"name": "tasks/t"}, CancelTask("t")),
        (Operation.CANCEL_TASK, {"id": "t"}, [("metadata", "x")], {}, CancelTask("t")),
        (Operation.SUBSCRIBE_TO_TASK, {"id": "t"}, NO_QUERY, None, SubscribeToTask("t")),
        (
            Operation.CREATE_PUSH_CONFIG,
            {"id": "t"},
            NO_QUERY,
            {"taskId": "other", "id": "p", "url": "u"},
            CreatePushConfig("t", PushConfig("p", "u")),
        ),
        (
            Operation.CREATE_PUSH_CONFIG,
            {"id": "t"},
            NO_QUERY,
            {"task_id": "other", "url": "u"},
            CreatePushConfig("t", PushConfig(None, "u")),
        ),
        (Operation.GET_PUSH_CONFIG, {"id": "t", "config_id": "p"}, NO_QUERY, None, GetPushConfig("t", "p")),
        (Operation.LIST_PUSH_CONFIGS, {"id": "t"}, [("pageSize", "5")], None, ListPushConfigs("t")),
        (Operation.DELETE_PUSH_CONFIG, {"id": "t", "config_id": "p"}, NO_QUERY, None, DeletePushConfig("t", "p")),
        (Operation.GET_EXTENDED_CARD, {}, NO_QUERY, None, GetExtendedCard()),
        (Operation.SEND_MESSAGE, {}, [("metadata", "x")], {"message": message_10()}, send_10()),
    ],
)
def test_path_query_and_body_are_one_request(
    operation: Operation, path: dict[str, str], query: list[tuple[str, str]], body: Any, request_: Request
) -> None:
    assert V1_0_DIALECT.decode(operation, rest_params(operation, path, query, body)) == request_


def test_the_body_is_not_changed() -> None:
    body = {"id": "other"}
    rest_params(Operation.CANCEL_TASK, {"id": "t"}, NO_QUERY, body)
    assert body == {"id": "other"}


def test_a_success_always_has_a_body() -> None:
    assert rest_result(Operation.DELETE_PUSH_CONFIG, None) == {}
    assert rest_result(Operation.SEND_MESSAGE, PLAIN) == V1_0_DIALECT.encode_result(Operation.SEND_MESSAGE, PLAIN)
