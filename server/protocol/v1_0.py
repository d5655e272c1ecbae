"""A2A 1.0, the same objects in JSON-RPC and HTTP+JSON: member names instead of `kind`, enums in capitals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.protocol.card import card_v1_0
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
from server.protocol.v1_0_requests import DECODERS
from server.protocol.views import Result, TaskPush, timestamp

_STATES = {state: f"TASK_STATE_{state.name}" for state in State}
_ROLES = {role: f"ROLE_{role.name}" for role in Role}
_WRAPPED = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE})


class V1_0:
    """The 1.0 dialect."""

    version = "1.0"
    extensions_header = "A2A-Extensions"
    methods: Mapping[str, Operation] = {name: operation for operation in Operation for name in operation.value.v1_0}

    def decode(self, operation: Operation, params: JsonObject, *, max_parts: int = MAX_PARTS) -> Request:
        return DECODERS[operation](params, max_parts)

    def encode_result(self, operation: Operation, result: Result) -> Any:
        match result:
            case Task():
                task = _task(result)
                return {"task": task} if operation in _WRAPPED else task
            case Message():
                return {"message": _message(result)}
            case TaskPage():
                return _page(result)
            case TaskPush():
                return _task_push(result)
            case Card():
                return card_v1_0(result)
            case None:
                return None
            case _:
                return {"configs": [_task_push(item) for item in result]}

    def encode_event(self, item: StreamItem, final: bool) -> JsonObject:
        """`final` has no form here: closing the stream is the signal."""
        match item:
            case StatusUpdate():
                return {"statusUpdate": _status_update(item)}
            case ArtifactUpdate():
                return {"artifactUpdate": _artifact_update(item)}
            case Task():
                return {"task": _task(item)}
            case Message():
                return {"message": _message(item)}

    def rpc_error(self, error: A2AError) -> JsonObject:
        return {"code": error.code, "message": error.message, "data": error_details(error)}


def error_details(error: A2AError) -> list[JsonObject]:
    """The google.rpc details of an error, the same in both bindings: clients tell errors apart by `reason`."""
    info: JsonObject = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.reason,
        "domain": "a2a-protocol.org",
    }
    if error.details:
        info["metadata"] = error.details
    if not error.violations:
        return [info]
    violations = [{"field": field, "description": description} for field, description in error.violations]
    return [info, {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]


def _task(task: Task) -> JsonObject:
    out: JsonObject = {"id": task.id, "contextId": task.context_id, "status": _status(task.status)}
    if task.artifacts:
        out["artifacts"] = [_artifact(artifact) for artifact in task.artifacts]
    if task.history:
        out["history"] = [_message(message) for message in task.history]
    if task.metadata:
        out["metadata"] = task.metadata
    return out


def _page(page: TaskPage) -> JsonObject:
    """All four members always, and `artifacts` on every task or on none."""
    tasks = []
    for item in page.tasks:
        task = _task(item)
        if not page.include_artifacts:
            task.pop("artifacts", None)
        else:
            task.setdefault("artifacts", [])
        tasks.append(task)
    return {
        "tasks": tasks,
        "nextPageToken": page.next_page_token,
        "pageSize": page.page_size,
        "totalSize": page.total_size,
    }


def _status(status: Status) -> JsonObject:
    out: JsonObject = {"state": _STATES[status.state], "timestamp": timestamp(status.at_ms)}
    if status.message is not None:
        out["message"] = _message(status.message)
    return out


def _message(message: Message) -> JsonObject:
    out: JsonObject = {
        "messageId": message.message_id,
        "role": _ROLES[message.role],
        "parts": [_part(part) for part in message.parts],
    }
    if message.context_id:
        out["contextId"] = message.context_id
    if message.task_id:
        out["taskId"] = message.task_id
    if message.metadata:
        out["metadata"] = message.metadata
    if message.extensions:
        out["extensions"] = list(message.extensions)
    if message.reference_task_ids:
        out["referenceTaskIds"] = list(message.reference_task_ids)
    return out


def _part(part: Part) -> JsonObject:
    # The model names its kinds as this dialect names its members.
    out: JsonObject = {part.kind: part.value}
    if part.filename:
        out["filename"] = part.filename
    if part.media_type:
        out["mediaType"] = part.media_type
    if part.metadata:
        out["metadata"] = part.metadata
    return out


def _artifact(artifact: Artifact) -> JsonObject:
    out: JsonObject = {"artifactId": artifact.artifact_id, "parts": [_part(part) for part in artifact.parts]}
    if artifact.name:
        out["name"] = artifact.name
    if artifact.description:
        out["description"] = artifact.description
    if artifact.metadata:
        out["metadata"] = artifact.metadata
    if artifact.extensions:
        out["extensions"] = list(artifact.extensions)
    return out


def _status_update(event: StatusUpdate) -> JsonObject:
    out: JsonObject = {"taskId": event.task_id, "contextId": event.context_id, "status": _status(event.status)}
    if event.metadata:
        out["metadata"] = event.metadata
    return out


def _artifact_update(event: ArtifactUpdate) -> JsonObject:
    out: JsonObject = {"taskId": event.task_id, "contextId": event.context_id, "artifact": _artifact(event.artifact)}
    if event.append:
        out["append"] = True
    if event.last_chunk:
        out["lastChunk"] = True
    if event.metadata:
        out["metadata"] = event.metadata
    return out


def _task_push(push: TaskPush) -> JsonObject:
    config = push.config
    out: JsonObject = {"taskId": push.task_id, "url": config.url}
    if config.id:
        out["id"] = config.id
    if config.token:
        out["token"] = config.token
    if config.auth_schemes:
        # 1.0 has room for one scheme: the first, as registered through 0.3.
        auth: JsonObject = {"scheme": config.auth_schemes[0]}
        if config.credentials:
            auth["credentials"] = config.credentials
        out["authentication"] = auth
    return out


V1_0_DIALECT = V1_0()
