"""A2A 0.3 requests as JSON-RPC spells them, decoded into the model."""

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
    integer,
    invalid,
    json_value,
    metadata,
    obj,
    strings,
    text,
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
    Message,
    Part,
    PushConfig,
    Request,
    Role,
    SendMessage,
    SubscribeToTask,
)
from server.protocol.operations import Operation

# The mark both SDKs put beside a value that is not an object, since a data part of 0.3 can only hold an object.
DATA_PART_COMPAT = "data_part_compat"

_ROLES = {role.value: role for role in Role}


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
    get = obj(config, "configuration").get
    blocking, modes, push = get("blocking"), get("acceptedOutputModes"), get("pushNotificationConfig")
    return SendMessage(
        message,
        boolean(blocking, "configuration.blocking") if blocking is not None else True,
        _history_length(config, "configuration.historyLength"),
        strings(modes, "configuration.acceptedOutputModes") if modes is not None else (),
        _push(push, "configuration.pushNotificationConfig") if push is not None else None,
        meta,
    )


def _message(raw: JsonObject, max_parts: int) -> Message:
    get = raw.get
    if get("kind") not in (None, "message"):
        raise invalid("message.kind", 'must be "message"')
    role = get("role")
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise invalid("message.role", 'must be "user" or "agent"' if role is not None else "is required")
    items = array(get("parts"), "message.parts")
    if len(items) > max_parts:
        raise invalid("message.parts", f"must not have more than {max_parts} elements")
    context_id, task_id, meta = get("contextId"), get("taskId"), get("metadata")
    extensions, references = get("extensions"), get("referenceTaskIds")
    return Message(
        ident(get("messageId"), "message.messageId"),
        known,
        tuple([_part(item, index) for index, item in enumerate(items)]),
        ident(context_id, "message.contextId") if context_id is not None else None,
        ident(task_id, "message.taskId") if task_id is not None else None,
        metadata(meta, "message.metadata") if meta is not None else None,
        strings(extensions, "message.extensions") if extensions is not None else (),
        idents(references, "message.referenceTaskIds") if references is not None else (),
    )


def _part(raw: Any, index: int) -> Part:
    path = f"message.parts[{index}]"
    get = obj(raw, path).get
    contents = [name for name in ("text", "file", "data") if get(name) is not None]
    if len(contents) != 1:
        raise invalid(path, "must have exactly one of text, file and data")
    kind = contents[0]
    if get("kind") not in (None, kind):
        raise invalid(f"{path}.kind", f'must be "{kind}", as its content is')
    meta = get("metadata")
    if meta is not None:
        metadata(meta, f"{path}.metadata")
    if kind == "text":
        return Part("text", text(raw["text"], f"{path}.text"), metadata=meta)
    if kind == "file":
        return _file(obj(raw["file"], f"{path}.file"), f"{path}.file", meta)
    value: Any = json_value(obj(raw["data"], f"{path}.data"), f"{path}.data")
    if meta is not None and meta.get(DATA_PART_COMPAT) is True and value.keys() == {"value"}:
        value = value["value"]
        meta = {name: item for name, item in meta.items() if name != DATA_PART_COMPAT} or None
    return Part("data", value, metadata=meta)


def _file(raw: JsonObject, path: str, meta: JsonObject | None) -> Part:
    content, uri, name, media_type = raw.get("bytes"), raw.get("uri"), raw.get("name"), raw.get("mimeType")
    if (content is None) == (uri is None):
        raise invalid(path, "must have exactly one of bytes and uri")
    filename = (text(name, f"{path}.name") or None) if name is not None else None
    mime = (text(media_type, f"{path}.mimeType") or None) if media_type is not None else None
    if content is not None:
        return Part("raw", base64_text(content, f"{path}.bytes"), filename, mime, meta)
    return Part("url", filled(uri, f"{path}.uri"), filename, mime, meta)


def _push(value: Any, path: str) -> PushConfig:
    get = obj(value, path).get
    config_id, token, auth = get("id"), get("token"), get("authentication")
    schemes: tuple[str, ...] = ()
    credentials = None
    if auth is not None:
        where = f"{path}.authentication"
        schemes = strings(obj(auth, where).get("schemes"), f"{where}.schemes")
        credentials = auth.get("credentials")
    return PushConfig(
        ident(config_id, f"{path}.id") if config_id is not None else None,
        filled(get("url"), f"{path}.url"),
        text(token, f"{path}.token") if token is not None else None,
        schemes,
        text(credentials, f"{path}.authentication.credentials") if credentials is not None else None,
        "0.3",
    )


def _history_length(raw: JsonObject, path: str) -> int | None:
    """In 0.3 zero means everything, the opposite of 1.0."""
    value = raw.get("historyLength")
    return (integer(value, path) or None) if value is not None else None


def _get_task(params: JsonObject, _: int) -> GetTask:
    return GetTask(ident(params.get("id"), "id"), _history_length(params, "historyLength"))


def _cancel(params: JsonObject, _: int) -> CancelTask:
    meta = params.get("metadata")
    return CancelTask(ident(params.get("id"), "id"), metadata(meta, "metadata") if meta is not None else None)


def _create_push(params: JsonObject, _: int) -> CreatePushConfig:
    task_id = ident(params.get("taskId"), "taskId")
    return CreatePushConfig(task_id, _push(params.get("pushNotificationConfig"), "pushNotificationConfig"))


def _get_push(params: JsonObject, _: int) -> GetPushConfig:
    config_id = params.get("pushNotificationConfigId")
    return GetPushConfig(
        ident(params.get("id"), "id"), ident(config_id, "pushNotificationConfigId") if config_id is not None else None
    )


def _delete_push(params: JsonObject, _: int) -> DeletePushConfig:
    config_id = ident(params.get("pushNotificationConfigId"), "pushNotificationConfigId")
    return DeletePushConfig(ident(params.get("id"), "id"), config_id)


DECODERS: Mapping[Operation, Callable[[JsonObject, int], Request]] = {
    Operation.SEND_MESSAGE: _send,
    Operation.SEND_STREAMING_MESSAGE: _send,
    Operation.GET_TASK: _get_task,
    Operation.CANCEL_TASK: _cancel,
    Operation.SUBSCRIBE_TO_TASK: lambda params, _: SubscribeToTask(ident(params.get("id"), "id")),
    Operation.CREATE_PUSH_CONFIG: _create_push,
    Operation.GET_PUSH_CONFIG: _get_push,
    Operation.LIST_PUSH_CONFIGS: lambda params, _: ListPushConfigs(ident(params.get("id"), "id")),
    Operation.DELETE_PUSH_CONFIG: _delete_push,
    Operation.GET_EXTENDED_CARD: lambda params, _: GetExtendedCard(),
}
