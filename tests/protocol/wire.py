"""The smallest correct requests of both dialects, to be changed one member at a time."""

from __future__ import annotations

from typing import Any

from server.protocol.errors import ParamsInvalid
from server.protocol.model import SendMessage
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT


def message_03(**members: Any) -> dict[str, Any]:
    return {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}], **members}


def message_10(**members: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}], **members}


def send_03(message: Any = None, **params: Any) -> SendMessage:
    request = V0_3_DIALECT.decode(Operation.SEND_MESSAGE, {"message": message or message_03(), **params})
    assert isinstance(request, SendMessage)
    return request


def send_10(message: Any = None, **params: Any) -> SendMessage:
    request = V1_0_DIALECT.decode(Operation.SEND_MESSAGE, {"message": message or message_10(), **params})
    assert isinstance(request, SendMessage)
    return request


def field_of(error: ParamsInvalid) -> str:
    """The one violated field; the message must begin with it, so that a log line is enough."""
    ((field, description),) = error.violations
    assert error.message == f"{field}: {description}"
    return field
