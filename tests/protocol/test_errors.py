"""The error catalogue in both dialects and bindings, complete and unambiguous."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from server.protocol import errors
from server.protocol.errors import (
    A2AError,
    AgentResponseInvalid,
    BodyTooLarge,
    ContentTypeUnsupported,
    EnvelopeInvalid,
    ExtendedCardMissing,
    ExtensionRequired,
    InternalFault,
    JsonInvalid,
    LimitReached,
    MessageIdReused,
    MessageInFlight,
    MethodUnknown,
    OperationUnsupported,
    ParamsInvalid,
    PushUnsupported,
    TaskNotCancelable,
    TaskNotFound,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
    VersionUnsupported,
)
from server.protocol.rest import rest_error
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT

INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"

# (error, JSON-RPC code, HTTP status of HTTP+JSON, HTTP status of JSON-RPC, google.rpc status, reason)
CATALOGUE: list[tuple[A2AError, int, int, int, str, str]] = [
    (TaskNotFound(), -32001, 404, 200, "NOT_FOUND", "TASK_NOT_FOUND"),
    (TaskNotCancelable(), -32002, 400, 200, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (PushUnsupported(), -32003, 400, 200, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (OperationUnsupported(), -32004, 400, 200, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (ContentTypeUnsupported(), -32005, 400, 200, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    (AgentResponseInvalid(), -32006, 500, 200, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    (ExtendedCardMissing(), -32007, 400, 200, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (ExtensionRequired(), -32008, 400, 200, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    (VersionUnsupported(), -32009, 400, 200, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    (JsonInvalid(), -32700, 400, 200, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (EnvelopeInvalid(), -32600, 400, 200, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (MethodUnknown(), -32601, 404, 200, "NOT_FOUND", "METHOD_NOT_FOUND"),
    (ParamsInvalid(), -32602, 400, 200, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    (InternalFault(), -32603, 500, 200, "INTERNAL", "INTERNAL_ERROR"),
    (BodyTooLarge(), -32600, 413, 413, "INVALID_ARGUMENT", "BODY_TOO_LARGE"),
    (UnsupportedMediaType(), -32600, 415, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE"),
    (Unauthenticated(), -32000, 401, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"),
    (MessageInFlight(), -32051, 409, 409, "ABORTED", "MESSAGE_IN_FLIGHT"),
    (MessageIdReused(), -32052, 422, 422, "INVALID_ARGUMENT", "MESSAGE_ID_REUSED"),
    (LimitReached("CONTEXT_LIMIT", "full", 1), -32053, 429, 429, "RESOURCE_EXHAUSTED", "CONTEXT_LIMIT"),
    (LimitReached("QUEUE_FULL", "full", 1), -32053, 429, 429, "RESOURCE_EXHAUSTED", "QUEUE_FULL"),
    (LimitReached("RATE_LIMIT", "slow down", 1), -32053, 429, 429, "RESOURCE_EXHAUSTED", "RATE_LIMIT"),
    (Unavailable("STORE_UNAVAILABLE", "away"), -32054, 503, 503, "UNAVAILABLE", "STORE_UNAVAILABLE"),
    (Unavailable("DRAINING", "leaving"), -32054, 503, 503, "UNAVAILABLE", "DRAINING"),
    (Unavailable("STORE_FULL", "full"), -32054, 503, 503, "UNAVAILABLE", "STORE_FULL"),
]


@pytest.mark.parametrize(
    ("error", "code", "rest_status", "rpc_status", "status", "reason"), CATALOGUE, ids=lambda value: str(value)[:40]
)
def test_an_error_has_its_place_in_every_form(
    error: A2AError, code: int, rest_status: int, rpc_status: int, status: str, reason: str
) -> None:
    info = {"@type": INFO, "reason": reason, "domain": "a2a-protocol.org"}
    assert V1_0_DIALECT.rpc_error(error) == {"code": code, "message": error.message, "data": [info]}
    assert rest_error(error) == {
        "error": {"code": rest_status, "status": status, "message": error.message, "details": [info]}
    }
    plain: dict[str, Any] = {"code": code, "message": error.message}
    if rpc_status != 200:
        plain["data"] = {"reason": reason}
    assert V0_3_DIALECT.rpc_error(error) == plain
    assert error.rpc_status == rpc_status


def test_the_catalogue_is_complete() -> None:
    defined = {member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, A2AError)}
    assert defined - {A2AError} == {type(error) for error, *_ in CATALOGUE}


def test_codes_with_a_meaning_of_their_own_are_not_shared() -> None:
    codes = {(type(error), code) for error, code, *_ in CATALOGUE if code != -32600}
    assert len(codes) == len({code for _, code in codes})


def test_details_travel_flat_in_0_3_and_as_string_map_in_1_0() -> None:
    error = MessageInFlight(details={"taskId": "t1"})
    assert V0_3_DIALECT.rpc_error(error)["data"] == {"reason": "MESSAGE_IN_FLIGHT", "taskId": "t1"}
    assert V1_0_DIALECT.rpc_error(error)["data"][0]["metadata"] == {"taskId": "t1"}
    assert V0_3_DIALECT.rpc_error(TaskNotFound(details={"taskId": "t1"}))["data"] == {
        "reason": "TASK_NOT_FOUND",
        "taskId": "t1",
    }


def test_violations_follow_the_error_info() -> None:
    error = ParamsInvalid(
        "x", violations=[("message.parts", "must contain at least one element"), ("id", "is required")]
    )
    details = [
        {"@type": INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"},
        {
            "@type": BAD_REQUEST,
            "fieldViolations": [
                {"field": "message.parts", "description": "must contain at least one element"},
                {"field": "id", "description": "is required"},
            ],
        },
    ]
    assert V1_0_DIALECT.rpc_error(error)["data"] == details
    assert rest_error(error)["error"]["details"] == details
    assert V0_3_DIALECT.rpc_error(error)["data"] == {"reason": "INVALID_PARAMS", "field": "message.parts"}


def test_limits_and_outages_say_when_to_come_back() -> None:
    assert LimitReached("QUEUE_FULL", "full", 7).headers == {"Retry-After": "7"}
    assert Unavailable("DRAINING", "leaving").headers == {"Retry-After": "1"}
