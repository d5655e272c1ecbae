"""The stored JSON form of tasks, events, messages and send requests.

What the store keeps as facts of its own (ids, state, times) is not in these documents: one truth, in one place.
User JSON (`data`, `metadata`) passes unchanged. NaN and infinity raise ValueError in events and messages, since no
client could read them; a task and a request are made of what was proven already.
"""

from __future__ import annotations

import json
from typing import Any

from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    JsonObject,
    Message,
    MessageJoined,
    Part,
    PartKind,
    PushConfig,
    Role,
    SendMessage,
    State,
    Status,
    StatusUpdate,
    Task,
)
from server.protocol.text import encode, prover

# Raised when a reader must know that a member changed its meaning. A task's new members need no new version, because
# older workers carry unknown ones along; those of messages, parts and artifacts in it do, since nobody carries those.
SCHEMA = 1

# Of an agent's making, so it has to be proven: what is not plain JSON raises TypeError or ValueError.
_prove = prover()
_decode = json.JSONDecoder().decode

_TASK_MEMBERS = frozenset({"v", "message", "artifacts", "history", "metadata", "trace"})
_ROLES: dict[str, Role] = {role.value: role for role in Role}
# A look-up takes a quarter of the time of an enum's `value`.
_ROLE_NAMES: dict[Role, str] = {role: role.value for role in Role}
_STATES: dict[str, State] = {state.value: state for state in State}
_KINDS: tuple[PartKind, ...] = ("text", "data", "raw", "url")


def dump_task(task: Task) -> str:
    """The task without id, context, state and time."""
    doc: JsonObject = {"v": SCHEMA} if not task.extra else {"v": SCHEMA, **task.extra}
    if task.trace:
        doc["trace"] = task.trace
    if task.status.message is not None:
        doc["message"] = _message_doc(task.status.message)
    if task.artifacts:
        doc["artifacts"] = [_artifact_doc(artifact) for artifact in task.artifacts]
    if task.history:
        doc["history"] = [_message_doc(message) for message in task.history]
    if task.metadata is not None:
        doc["metadata"] = task.metadata
    return encode(doc).decode()


def load_task(doc: str, *, task_id: str, context_id: str, state: State, at_ms: int) -> Task:
    """The task of a document and the store's facts."""
    raw: JsonObject = _decode(doc)
    extra: JsonObject | None = None
    if not raw.keys() <= _TASK_MEMBERS:
        extra = {name: value for name, value in raw.items() if name not in _TASK_MEMBERS}
    message = raw.get("message")
    return Task(
        task_id,
        context_id,
        Status(state, at_ms, _message(message) if message is not None else None),
        tuple([_artifact(item) for item in raw.get("artifacts", ())]),
        tuple([_message(item) for item in raw.get("history", ())]),
        raw.get("metadata"),
        raw.get("trace", ""),
        extra,
    )


def dump_event(event: Event) -> tuple[str, str]:
    """The event's kind (`status`, `artifact` or `message`) and its document without ids and time."""
    match event:
        case StatusUpdate():
            doc: JsonObject = {"state": event.status.state}
            if event.status.message is not None:
                doc["message"] = _message_doc(event.status.message)
            if event.metadata is not None:
                doc["metadata"] = event.metadata
            return "status", _prove(doc)
        case ArtifactUpdate():
            doc = {"artifact": _artifact_doc(event.artifact)}
            if event.append:
                doc["append"] = True
            if event.last_chunk:
                doc["last"] = True
            if event.metadata is not None:
                doc["metadata"] = event.metadata
            return "artifact", _prove(doc)
        case MessageJoined():
            return "message", _prove(_message_doc(event.message))


def load_event(kind: str, doc: str, *, task_id: str, context_id: str, at_ms: int) -> Event:
    """The event of a log entry. `start`, written by the store itself, has no document: the task began to work."""
    if kind == "start":
        return StatusUpdate(task_id, context_id, Status(State.WORKING, at_ms))
    raw: JsonObject = _decode(doc)
    if kind == "artifact":
        return ArtifactUpdate(
            task_id,
            context_id,
            _artifact(raw["artifact"]),
            raw.get("append", False),
            raw.get("last", False),
            raw.get("metadata"),
        )
    if kind == "status":
        message = raw.get("message")
        status = Status(_STATES[raw["state"]], at_ms, _message(message) if message is not None else None)
        return StatusUpdate(task_id, context_id, status, raw.get("metadata"))
    if kind == "message":
        return MessageJoined(task_id, context_id, _message(raw))
    raise ValueError(f"unknown kind of event: {kind!r}")


def dump_message(message: Message) -> str:
    return _prove(_message_doc(message))


def load_message(doc: str) -> Message:
    return _message(_decode(doc))


def dump_send(send: SendMessage) -> str:
    """A whole send request, so that a queued turn can run on any worker."""
    doc: JsonObject = {"v": SCHEMA, "message": _message_doc(send.message)}
    if not send.wait:
        doc["wait"] = False
    if send.history_length is not None:
        doc["history_length"] = send.history_length
    if send.accepted_output_modes:
        doc["modes"] = send.accepted_output_modes
    if send.push is not None:
        doc["push"] = _push_doc(send.push)
    if send.metadata is not None:
        doc["metadata"] = send.metadata
    return encode(doc).decode()


def load_send(doc: str) -> SendMessage:
    raw: JsonObject = _decode(doc)
    push = raw.get("push")
    return SendMessage(
        _message(raw["message"]),
        raw.get("wait", True),
        raw.get("history_length"),
        tuple(raw.get("modes", ())),
        _push(push) if push is not None else None,
        raw.get("metadata"),
    )


def _part_doc(part: Part) -> JsonObject:
    doc: JsonObject = {part.kind: part.value}
    if part.filename is not None:
        doc["name"] = part.filename
    if part.media_type is not None:
        doc["type"] = part.media_type
    if part.metadata is not None:
        doc["metadata"] = part.metadata
    return doc


def _part(raw: JsonObject) -> Part:
    for kind in _KINDS:
        if kind in raw:
            if len(raw) == 1:
                return Part(kind, raw[kind])
            return Part(kind, raw[kind], raw.get("name"), raw.get("type"), raw.get("metadata"))
    raise ValueError(f"a stored part has no content: {sorted(raw)}")


def _message_doc(message: Message) -> JsonObject:
    doc: JsonObject = {
        "id": message.message_id,
        "role": _ROLE_NAMES[message.role],
        "parts": [_part_doc(part) for part in message.parts],
    }
    if message.context_id is not None:
        doc["context"] = message.context_id
    if message.task_id is not None:
        doc["task"] = message.task_id
    if message.metadata is not None:
        doc["metadata"] = message.metadata
    if message.extensions:
        doc["extensions"] = message.extensions
    if message.reference_task_ids:
        doc["references"] = message.reference_task_ids
    return doc


def _message(raw: JsonObject) -> Message:
    get = raw.get
    return Message(
        raw["id"],
        _ROLES[raw["role"]],
        tuple([_part(item) for item in raw["parts"]]),
        get("context"),
        get("task"),
        get("metadata"),
        tuple(get("extensions", ())),
        tuple(get("references", ())),
    )


def _artifact_doc(artifact: Artifact) -> JsonObject:
    doc: JsonObject = {"id": artifact.artifact_id, "parts": [_part_doc(part) for part in artifact.parts]}
    if artifact.name is not None:
        doc["name"] = artifact.name
    if artifact.description is not None:
        doc["description"] = artifact.description
    if artifact.metadata is not None:
        doc["metadata"] = artifact.metadata
    if artifact.extensions:
        doc["extensions"] = artifact.extensions
    return doc


def _artifact(raw: JsonObject) -> Artifact:
    get = raw.get
    return Artifact(
        raw["id"],
        tuple([_part(item) for item in raw["parts"]]),
        get("name"),
        get("description"),
        get("metadata"),
        tuple(get("extensions", ())),
    )


def _push_doc(config: PushConfig) -> JsonObject:
    return {
        "id": config.id,
        "url": config.url,
        "token": config.token,
        "schemes": config.auth_schemes,
        "credentials": config.credentials,
        "dialect": config.dialect,
    }


def _push(raw: dict[str, Any]) -> PushConfig:
    return PushConfig(raw["id"], raw["url"], raw["token"], tuple(raw["schemes"]), raw["credentials"], raw["dialect"])
