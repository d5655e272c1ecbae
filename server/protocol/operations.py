"""The operations of A2A: one row each, from which both bindings are served."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Route:
    """How HTTP+JSON 1.0 spells an operation, below the interface's base URL."""

    verb: str
    path: str


@dataclass(frozen=True, slots=True)
class Row:
    """An operation's names. `v0_3` and `v1_0` list the JSON-RPC method names, the official one first."""

    v0_3: tuple[str, ...]
    v1_0: tuple[str, ...]
    routes: tuple[Route, ...]
    streaming: bool = False


class Operation(Enum):
    """The table. A new operation is one row here and one method on the service."""

    def __init__(self, row: Row) -> None:
        # Plain attributes: each request asks, and to find an enum's value and name takes longer than to look.
        self.streaming = row.streaming
        self.span = f"nonstick.{self._name_.lower()}"

    SEND_MESSAGE = Row(("message/send",), ("SendMessage",), (Route("POST", "/message:send"),))
    SEND_STREAMING_MESSAGE = Row(
        ("message/stream", "message/sendStream"),
        ("SendStreamingMessage",),
        (Route("POST", "/message:stream"),),
        streaming=True,
    )
    GET_TASK = Row(("tasks/get",), ("GetTask",), (Route("GET", "/tasks/{id}"),))
    LIST_TASKS = Row((), ("ListTasks",), (Route("GET", "/tasks"),))
    CANCEL_TASK = Row(("tasks/cancel",), ("CancelTask",), (Route("POST", "/tasks/{id}:cancel"),))
    SUBSCRIBE_TO_TASK = Row(
        ("tasks/resubscribe",),
        ("SubscribeToTask",),
        (Route("POST", "/tasks/{id}:subscribe"), Route("GET", "/tasks/{id}:subscribe")),
        streaming=True,
    )
    CREATE_PUSH_CONFIG = Row(
        ("tasks/pushNotificationConfig/set",),
        ("CreateTaskPushNotificationConfig",),
        (Route("POST", "/tasks/{id}/pushNotificationConfigs"),),
    )
    GET_PUSH_CONFIG = Row(
        ("tasks/pushNotificationConfig/get",),
        ("GetTaskPushNotificationConfig",),
        (Route("GET", "/tasks/{id}/pushNotificationConfigs/{config_id}"),),
    )
    LIST_PUSH_CONFIGS = Row(
        ("tasks/pushNotificationConfig/list",),
        ("ListTaskPushNotificationConfigs", "ListTaskPushNotificationConfig"),
        (Route("GET", "/tasks/{id}/pushNotificationConfigs"),),
    )
    DELETE_PUSH_CONFIG = Row(
        ("tasks/pushNotificationConfig/delete",),
        ("DeleteTaskPushNotificationConfig",),
        (Route("DELETE", "/tasks/{id}/pushNotificationConfigs/{config_id}"),),
    )
    GET_EXTENDED_CARD = Row(
        ("agent/getAuthenticatedExtendedCard",),
        ("GetExtendedAgentCard",),
        (Route("GET", "/extendedAgentCard"),),
    )
