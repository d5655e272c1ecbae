"""Every error a caller can meet, with its code, HTTP statuses and reason in one table.

A2AError
 |- JsonInvalid -32700      the body is not JSON
 |- EnvelopeInvalid -32600  the JSON-RPC envelope is wrong; BodyTooLarge (413), UnsupportedMediaType (415) are its kin
 |- MethodUnknown -32601
 |- ParamsInvalid -32602
 |- InternalFault -32603    ours; never leaks internals
 |- TaskNotFound -32001, TaskNotCancelable -32002, PushUnsupported -32003, OperationUnsupported -32004,
 |  ContentTypeUnsupported -32005, AgentResponseInvalid -32006, ExtendedCardMissing -32007, ExtensionRequired -32008,
 |  VersionUnsupported -32009
 '- where the HTTP status itself is the message, in both bindings and dialects:
    Unauthenticated 401, MessageInFlight 409, MessageIdReused 422, LimitReached 429, Unavailable 503
"""

from __future__ import annotations

from typing import ClassVar


class A2AError(Exception):
    """An error with a place in the catalogue.

    `rest_status` is the HTTP status of the HTTP+JSON binding. `rpc_status` is the one of the JSON-RPC binding: 200
    unless the status itself is the message, because clients lose the code of a JSON-RPC error behind any other.
    `details` are strings only: they travel as google.rpc.ErrorInfo metadata.
    """

    code: ClassVar[int] = -32603
    rest_status: ClassVar[int] = 500
    rpc_status: ClassVar[int] = 200
    status: ClassVar[str] = "INTERNAL"
    reason: str = "INTERNAL_ERROR"
    default: ClassVar[str] = "Internal error"

    def __init__(
        self,
        message: str | None = None,
        *,
        details: dict[str, str] | None = None,
        violations: list[tuple[str, str]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.message = message or self.default
        self.details = details or {}
        self.violations = violations or []
        self.headers = headers or {}
        super().__init__(self.message)


class JsonInvalid(A2AError):
    code, rest_status, status, reason = -32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"
    default = "Invalid JSON payload"


class EnvelopeInvalid(A2AError):
    code, rest_status, status, reason = -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"
    default = "Request payload validation error"


class BodyTooLarge(EnvelopeInvalid):
    rest_status, rpc_status, status, reason = 413, 413, "INVALID_ARGUMENT", "BODY_TOO_LARGE"
    default = "The request body is too large"


class UnsupportedMediaType(EnvelopeInvalid):
    rest_status, rpc_status, status, reason = 415, 415, "INVALID_ARGUMENT", "UNSUPPORTED_MEDIA_TYPE"
    default = "The request's Content-Type must be application/json"


class MethodUnknown(A2AError):
    code, rest_status, status, reason = -32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"
    default = "Method not found"


class ParamsInvalid(A2AError):
    code, rest_status, status, reason = -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"
    default = "Invalid parameters"


class InternalFault(A2AError):
    pass


class TaskNotFound(A2AError):
    code, rest_status, status, reason = -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"
    default = "Task not found"


class TaskNotCancelable(A2AError):
    code, rest_status, status, reason = -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"
    default = "Task cannot be canceled"


class PushUnsupported(A2AError):
    code, rest_status, status, reason = -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"
    default = "Push Notification is not supported"


class OperationUnsupported(A2AError):
    code, rest_status, status, reason = -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"
    default = "This operation is not supported"


class ContentTypeUnsupported(A2AError):
    code, rest_status, status, reason = -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"
    default = "Incompatible content types"


class AgentResponseInvalid(A2AError):
    code, rest_status, status, reason = -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"
    default = "Invalid agent response"


class ExtendedCardMissing(A2AError):
    code, rest_status, status, reason = -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    default = "Authenticated Extended Card is not configured"


class ExtensionRequired(A2AError):
    code, rest_status, status, reason = -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"
    default = "A required extension was not requested"


class VersionUnsupported(A2AError):
    code, rest_status, status, reason = -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"
    default = "This A2A protocol version is not supported"


class Unauthenticated(A2AError):
    code, rest_status, rpc_status, status, reason = -32000, 401, 401, "UNAUTHENTICATED", "UNAUTHENTICATED"
    default = "Authentication required"


class MessageInFlight(A2AError):
    code, rest_status, rpc_status, status, reason = -32051, 409, 409, "ABORTED", "MESSAGE_IN_FLIGHT"
    default = "This message is being processed; retry after it has ended to get its outcome"


class MessageIdReused(A2AError):
    code, rest_status, rpc_status, status, reason = -32052, 422, 422, "INVALID_ARGUMENT", "MESSAGE_ID_REUSED"
    default = "This messageId was used before with other content; send new content under a new messageId"


class LimitReached(A2AError):
    """`reason` is CONTEXT_LIMIT, QUEUE_FULL or RATE_LIMIT."""

    code, rest_status, rpc_status, status = -32053, 429, 429, "RESOURCE_EXHAUSTED"

    def __init__(self, reason: str, message: str, retry_after_s: int, details: dict[str, str] | None = None) -> None:
        super().__init__(message, details=details, headers={"Retry-After": str(retry_after_s)})
        self.reason = reason


class Unavailable(A2AError):
    """`reason` is STORE_UNAVAILABLE, DRAINING, STORE_FULL, KEYS_UNAVAILABLE or STREAM_LIMIT."""

    code, rest_status, rpc_status, status = -32054, 503, 503, "UNAVAILABLE"

    def __init__(
        self, reason: str, message: str, retry_after_s: int = 1, details: dict[str, str] | None = None
    ) -> None:
        super().__init__(message, details=details, headers={"Retry-After": str(retry_after_s)})
        self.reason = reason
