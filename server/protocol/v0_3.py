"""A2A 0.3 over JSON-RPC: `kind` on every object, lowercase states, `final` on every status update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.protocol.card import card_v0_3
from server.protocol.errors import A2AError
from server.protocol.fields import MAX_PARTS
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Card,
    JsonObject,
    Message,
    Part,
    Request,
    Role,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
)
from server.protocol.operations import Operation
from server.protocol.v0_3_requests import DATA_PART_COMPAT, DECODERS
from server.protocol.views import Result, TaskPush, timestamp

_STATES = {state: state.value.replace("_", "-") for state in State}
_ROLES = {role: role.value for role in Role}


class V0_3:
    """The 0.3 dialect."""

    version = "0.3"
    extensions_header = "X-A2A-Extensions"
    methods: Mapping[str, Operation] = {name: operation for operation in Operation for name in operation.value.v0_3}

    def decode(self, operation: Operation, params: JsonObject, *, max_parts: int = MAX_PARTS) -> Request:
        return DECODERS[operation](params, max_parts)

    def encode_result(self, operation: Operation, result: Result) -> Any:
        match result:
            case Task():
                return _task(result)
            case Message():
                return _message(result)
            case TaskPush():
                return _task_push(result)
            case Card():
                return card_v0_3(result)
            case None:
                return None
            case TaskPage():
                raise TypeError("0.3 has no form for a page of tasks")
            case _:
                return [_task_push(item) for item in result]

    def encode_event(self, item: StreamItem, final: bool) -> JsonObject:
        match item:
            case StatusUpdate():
                return _status_update(item, final)
            case ArtifactUpdate():
                return _artifact_update(item)
            case Task():
                return _task(item)
            case Message():
                return _message(item)

    def rpc_error(self, error: A2AError) -> JsonObject:
        """`data` is a flat object, and absent where it would say nothing that code and message do not."""
        body: JsonObject = {"code": error.code, "message": error.message}
        if error.details or error.violations or error.rpc_status != 200:
            data: JsonObject = {"reason": error.reason, **error.details}
            if error.violations:
                data.setdefault("field", error.violations[0][0])
            body["data"] = data
        return body


def _task(task: Task) -> JsonObject:
    out: JsonObject = {
        "kind": "task",
        "id": task.id,
        "contextId": task.context_id,
        "status": _status(task.status),
    }
    if task.artifacts:
        out["artifacts"] = [_artifact(artifact) for artifact in task.artifacts]
    if task.history:
        out["history"] = [_message(message) for message in task.history]
    if task.metadata is not None:
        out["metadata"] = task.metadata
    return out


def _status(status: Status) -> JsonObject:
    out: JsonObject = {"state": _STATES[status.state], "timestamp": timestamp(status.at_ms)}
    if status.message is not None:
        out["message"] = _message(status.message)
    return out


def _message(message: Message) -> JsonObject:
    out: JsonObject = {
        "kind": "message",
        "messageId": message.message_id,
        "role": _ROLES[message.role],
        "parts": [_part(part) for part in message.parts],
    }
    if message.context_id is not None:
        out["contextId"] = message.context_id
    if message.task_id is not None:
        out["taskId"] = message.task_id
    if message.metadata is not None:
        out["metadata"] = message.metadata
    if message.extensions:
        out["extensions"] = list(message.extensions)
    if message.reference_task_ids:
        out["referenceTaskIds"] = list(message.reference_task_ids)
    return out


def _part(part: Part) -> JsonObject:
    kind = part.kind
    metadata = part.metadata
    out: JsonObject
    if kind == "text":
        out = {"kind": "text", "text": part.value}
    elif kind == "data":
        value = part.value
        if not isinstance(value, dict):
            value = {"value": value}
            metadata = {**(metadata or {}), DATA_PART_COMPAT: True}
        out = {"kind": "data", "data": value}
    else:
        file: JsonObject = {"bytes" if kind == "raw" else "uri": part.value}
        if part.filename:
            file["name"] = part.filename
        if part.media_type:
            file["mimeType"] = part.media_type
        out = {"kind": "file", "file": file}
    if metadata is not None:
        out["metadata"] = metadata
    return out


def _artifact(artifact: Artifact) -> JsonObject:
    out: JsonObject = {"artifactId": artifact.artifact_id, "parts": [_part(part) for part in artifact.parts]}
    if artifact.name is not None:
        out["name"] = artifact.name
    if artifact.description is not None:
        out["description"] = artifact.description
    if artifact.metadata is not None:
        out["metadata"] = artifact.metadata
    if artifact.extensions:
        out["extensions"] = list(artifact.extensions)
    return out


def _status_update(event: StatusUpdate, final: bool) -> JsonObject:
    out: JsonObject = {
        "kind": "status-update",
        "taskId": event.task_id,
        "contextId": event.context_id,
        "status": _status(event.status),
        "final": final,
    }
    if event.metadata is not None:
        out["metadata"] = event.metadata
    return out


def _artifact_update(event: ArtifactUpdate) -> JsonObject:
    out: JsonObject = {
        "kind": "artifact-update",
        "taskId": event.task_id,
        "contextId": event.context_id,
        "artifact": _artifact(event.artifact),
        "append": event.append,
        "lastChunk": event.last_chunk,
    }
    if event.metadata is not None:
        out["metadata"] = event.metadata
    return out


def _task_push(push: TaskPush) -> JsonObject:
    config = push.config
    out: JsonObject = {"url": config.url}
    if config.id is not None:
        out["id"] = config.id
    if config.token is not None:
        out["token"] = config.token
    if config.auth_schemes or config.credentials is not None:
        auth: JsonObject = {"schemes": list(config.auth_schemes)}
        if config.credentials is not None:
            auth["credentials"] = config.credentials
        out["authentication"] = auth
    return {"taskId": push.task_id, "pushNotificationConfig": out}


V0_3_DIALECT = V0_3()
