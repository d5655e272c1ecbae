"""A2A 1.0 requests, read as ProtoJSON parsers read them and decoded into the model.

That means: snake_case names and enum numbers are taken too, and a null or an empty optional string is an unset member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from server.protocol.fields import (
    array,
    base64_text,
    boolean,
    filled,
    ident,
    idents,
    invalid,
    json_value,
    metadata,
    obj,
    proto_integer,
    strings,
    text,
    timestamp_ms,
)
from server.protocol.model import (
    CancelTask,
    CreatePushConfig,
    DeletePushConfig,
    GetExtendedCard,
    GetPushConfig,
    GetTask,
    JsonObject,
    ListPushConfigs,
    ListTasks,
    Message,
    Part,
    PartKind,
    PushConfig,
    Request,
    Role,
    SendMessage,
    State,
    SubscribeToTask,
)
from server.protocol.operations import Operation

_ROLES: dict[str | int, Role] = {"ROLE_USER": Role.USER, 1: Role.USER, "ROLE_AGENT": Role.AGENT, 2: Role.AGENT}
# In the order of the proto's numbers, from 1.
_NUMBERED = (
    State.SUBMITTED,
    State.WORKING,
    State.COMPLETED,
    State.FAILED,
    State.CANCELED,
    State.INPUT_REQUIRED,
    State.REJECTED,
    State.AUTH_REQUIRED,
)
_STATES: dict[str | int, State | None] = {
    "TASK_STATE_UNSPECIFIED": None,
    0: None,
    **{f"TASK_STATE_{state.name}": state for state in State},
    **dict(enumerate(_NUMBERED, start=1)),
}
_CONTENTS: tuple[PartKind, ...] = ("text", "raw", "url", "data")
_PAGE_SIZES = range(1, 101)


def _member(raw: JsonObject, camel: str, snake: str) -> Any:
    value = raw.get(camel)
    return raw.get(snake) if value is None else value


def _optional_id(raw: JsonObject, camel: str, snake: str, prefix: str = "") -> str | None:
    value = _member(raw, camel, snake)
    return None if value is None or value == "" else ident(value, f"{prefix}{camel}")


def _send(params: JsonObject, max_parts: int) -> SendMessage:
    raw = params.get("message")
    message = _message(raw if isinstance(raw, dict) else obj(raw, "message"), max_parts)
    meta = params.get("metadata")
    if meta is not None:
        metadata(meta, "metadata")
    config = params.get("configuration")
    if not config:
        if config is not None:
            obj(config, "configuration")
        return SendMessage(message, metadata=meta)
    obj(config, "configuration")
    at_once = _member(config, "returnImmediately", "return_immediately")
    modes = _member(config, "acceptedOutputModes", "accepted_output_modes")
    push = _member(config, "taskPushNotificationConfig", "task_push_notification_config")
    return SendMessage(
        message,
        not boolean(at_once, "configuration.returnImmediately") if at_once is not None else True,
        _history_length(config, "configuration.historyLength"),
        strings(modes, "configuration.acceptedOutputModes") if modes is not None else (),
        _push(push, "configuration.taskPushNotificationConfig") if push is not None else None,
        meta,
    )


def _message(raw: JsonObject, max_parts: int) -> Message:
    get = raw.get
    role = get("role")
    known = _ROLES.get(role) if isinstance(role, str | int) and not isinstance(role, bool) else None
    if known is None:
        raise invalid("message.role", "must be ROLE_USER or ROLE_AGENT" if role is not None else "is required")
    items = array(get("parts"), "message.parts")
    if not items:
        raise invalid("message.parts", "must contain at least one element")
    if len(items) > max_parts:
        raise invalid("message.parts", f"must not have more than {max_parts} elements")
    meta, extensions = get("metadata"), get("extensions")
    references = _member(raw, "referenceTaskIds", "reference_task_ids")
    return Message(
        ident(_member(raw, "messageId", "message_id"), "message.messageId"),
        known,
        tuple([_part(item, index) for index, item in enumerate(items)]),
        _optional_id(raw, "contextId", "context_id", "message."),
        _optional_id(raw, "taskId", "task_id", "message."),
        metadata(meta, "message.metadata") if meta is not None else None,
        strings(extensions, "message.extensions") if extensions is not None else (),
        idents(references, "message.referenceTaskIds") if references is not None else (),
    )


def _part(raw: Any, index: int) -> Part:
    path = f"message.parts[{index}]"
    if not isinstance(raw, dict):
        raise invalid(path, "must be an object")
    if len(raw) == 1 and isinstance(plain := raw.get("text"), str):
        return Part("text", text(plain, f"{path}.text"))
    kinds = [kind for kind in _CONTENTS if raw.get(kind) is not None]
    if not kinds and "data" in raw:
        # Only beside no other content is null the value of `data`; else it is the null of an unset member.
        kinds = ["data"]
    if len(kinds) != 1:
        raise invalid(path, "must have exactly one of text, raw, url and data")
    kind = kinds[0]
    value = raw[kind]
    if kind == "text":
        text(value, f"{path}.text")
    elif kind == "data":
        json_value(value, f"{path}.data")
    elif kind == "raw":
        value = base64_text(value, f"{path}.raw")
    else:
        filled(value, f"{path}.url")
    name, media_type, meta = raw.get("filename"), _member(raw, "mediaType", "media_type"), raw.get("metadata")
    return Part(
        kind,
        value,
        (text(name, f"{path}.filename") or None) if name is not None else None,
        (text(media_type, f"{path}.mediaType") or None) if media_type is not None else None,
        metadata(meta, f"{path}.metadata") if meta is not None else None,
    )


def _push(value: Any, path: str) -> PushConfig:
    get = obj(value, path).get
    prefix = f"{path}." if path else ""
    token, auth = get("token"), get("authentication")
    schemes: tuple[str, ...] = ()
    credentials = None
    if auth is not None:
        where = f"{prefix}authentication"
        schemes = (filled(obj(auth, where).get("scheme"), f"{where}.scheme"),)
        credentials = auth.get("credentials")
    return PushConfig(
        _optional_id(value, "id", "id", prefix),
        filled(get("url"), f"{prefix}url"),
        (text(token, f"{prefix}token") or None) if token is not None else None,
        schemes,
        (text(credentials, f"{prefix}authentication.credentials") or None) if credentials is not None else None,
        "1.0",
    )


def _history_length(raw: JsonObject, path: str) -> int | None:
    value = _member(raw, "historyLength", "history_length")
    return proto_integer(value, path) if value is not None else None


def _task_id(params: JsonObject) -> str:
    """In push operations `id` is the config and the task has this name."""
    return ident(_member(params, "taskId", "task_id"), "taskId")


def _get_task(params: JsonObject, _: int) -> GetTask:
    return GetTask(ident(params.get("id"), "id"), _history_length(params, "historyLength"))


def _list(params: JsonObject, _: int) -> ListTasks:
    size = _member(params, "pageSize", "page_size")
    token = _member(params, "pageToken", "page_token")
    after = _member(params, "statusTimestampAfter", "status_timestamp_after")
    artifacts = _member(params, "includeArtifacts", "include_artifacts")
    return ListTasks(
        _optional_id(params, "contextId", "context_id"),
        _state(params.get("status")),
        proto_integer(size, "pageSize", _PAGE_SIZES[0], _PAGE_SIZES[-1]) if size is not None else 50,
        (text(token, "pageToken") or None) if token is not None else None,
        _history_length(params, "historyLength"),
        timestamp_ms(after, "statusTimestampAfter") if after is not None else None,
        boolean(artifacts, "includeArtifacts") if artifacts is not None else False,
    )


def _state(value: Any) -> State | None:
    if value is None:
        return None
    if not isinstance(value, str | int) or isinstance(value, bool) or value not in _STATES:
        raise invalid("status", "must be the name of a task state, such as TASK_STATE_WORKING")
    return _STATES[value]


def _cancel(params: JsonObject, _: int) -> CancelTask:
    meta = params.get("metadata")
    return CancelTask(ident(params.get("id"), "id"), metadata(meta, "metadata") if meta is not None else None)


DECODERS: Mapping[Operation, Callable[[JsonObject, int], Request]] = {
    Operation.SEND_MESSAGE: _send,
    Operation.SEND_STREAMING_MESSAGE: _send,
    Operation.GET_TASK: _get_task,
    Operation.LIST_TASKS: _list,
    Operation.CANCEL_TASK: _cancel,
    Operation.SUBSCRIBE_TO_TASK: lambda params, _: SubscribeToTask(ident(params.get("id"), "id")),
    Operation.CREATE_PUSH_CONFIG: lambda params, _: CreatePushConfig(_task_id(params), _push(params, "")),
    Operation.GET_PUSH_CONFIG: lambda params, _: GetPushConfig(_task_id(params), ident(params.get("id"), "id")),
    Operation.LIST_PUSH_CONFIGS: lambda params, _: ListPushConfigs(_task_id(params)),
    Operation.DELETE_PUSH_CONFIG: lambda params, _: DeletePushConfig(_task_id(params), ident(params.get("id"), "id")),
    Operation.GET_EXTENDED_CARD: lambda params, _: GetExtendedCard(),
}
