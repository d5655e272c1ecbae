"""Drives the official client 0.3.x over JSON-RPC."""

from __future__ import annotations

import base64
import sys
from typing import Any

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendConfiguration,
    Part,
    PushNotificationConfig,
    Role,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskStatusUpdateEvent,
    TextPart,
)
from httpx import AsyncClient

from tests.interop.drivers.link import Emit, drive

Asked = dict[str, Any]
_clients: dict[tuple[str, bool], Any] = {}


async def fetch_card(url: str) -> Any:
    async with AsyncClient() as http:
        return await A2ACardResolver(http, url).get_agent_card()


async def client(asked: Asked, *, streaming: bool = True) -> Any:
    """The client that the server's card leads to, with the time-outs that the library comes with."""
    key = (asked["url"], streaming)
    if key not in _clients:
        _clients[key] = ClientFactory(ClientConfig(streaming=streaming)).create(await fetch_card(asked["url"]))
    return _clients[key]


def message(asked: Asked) -> Any:
    parts = [Part(root=TextPart(text=asked["text"]))]
    for extra in asked.get("parts", ()):
        if "data" in extra:
            parts.append(Part(root=DataPart(data=extra["data"])))
            continue
        named = {"name": extra.get("filename"), "mime_type": extra.get("media_type")}
        if "raw" in extra:
            content = base64.b64encode(bytes.fromhex(extra["raw"])).decode()
            parts.append(Part(root=FilePart(file=FileWithBytes(bytes=content, **named))))
        else:
            parts.append(Part(root=FilePart(file=FileWithUri(uri=extra["uri"], **named))))
    return Message(
        message_id=asked["message_id"],
        role=Role.user,
        parts=parts,
        context_id=asked.get("context_id"),
        task_id=asked.get("task_id"),
    )


def configuration(asked: Asked) -> Any:
    given: dict[str, Any] = {}
    if "history_length" in asked:
        given["history_length"] = asked["history_length"]
    if "wait" in asked:
        given["blocking"] = asked["wait"]
    if "callback" in asked:
        given["push_notification_config"] = PushNotificationConfig(url=asked["callback"])
    return MessageSendConfiguration(**given)


async def card(asked: Asked, _emit: Emit) -> Any:
    found = await fetch_card(asked["url"])
    transport = (await client(asked))._transport
    return {
        "name": found.name,
        "description": found.description,
        "version": found.version,
        "streaming": found.capabilities.streaming,
        "push": found.capabilities.push_notifications,
        "skills": [skill.id for skill in found.skills],
        "transport": type(transport).__name__,
        "url": transport.url,
    }


async def send(asked: Asked, _emit: Emit) -> Any:
    waiting = await client(asked, streaming=False)
    [only] = [event async for event in waiting.send_message(message(asked), configuration=configuration(asked))]
    if isinstance(only, Message):
        return {"kind": "message", **shown_message(only)}
    return {"kind": "task", **shown_task(only[0])}


async def stream(asked: Asked, emit: Emit) -> Any:
    events = (await client(asked)).send_message(message(asked), configuration=configuration(asked))
    return await follow(events, emit)


async def subscribe(asked: Asked, emit: Emit) -> Any:
    return await follow((await client(asked)).resubscribe(TaskIdParams(id=asked["task_id"])), emit)


async def follow(events: Any, emit: Emit) -> Any:
    """Shows each event; the result is the task as this library folds it."""
    task = None
    async for event in events:
        if isinstance(event, Message):
            emit({"kind": "message", **shown_message(event)})
            continue
        task, update = event
        emit({"kind": "task", **shown_task(task)} if update is None else shown_update(update))
    return shown_task(task) if task is not None else None


async def get(asked: Asked, _emit: Emit) -> Any:
    wanted = TaskQueryParams(id=asked["task_id"], history_length=asked.get("history_length"))
    return shown_task(await (await client(asked)).get_task(wanted))


async def cancel(asked: Asked, _emit: Emit) -> Any:
    return shown_task(await (await client(asked)).cancel_task(TaskIdParams(id=asked["task_id"])))


async def push_create(asked: Asked, _emit: Emit) -> Any:
    config = PushNotificationConfig(url=asked["callback"])
    wanted = TaskPushNotificationConfig(task_id=asked["task_id"], push_notification_config=config)
    await (await client(asked)).set_task_callback(wanted)


async def push_get(asked: Asked, _emit: Emit) -> Any:
    wanted = GetTaskPushNotificationConfigParams(id=asked["task_id"], push_notification_config_id="any")
    await (await client(asked)).get_task_callback(wanted)


def shown_update(update: Any) -> Asked:
    head = {"id": update.task_id, "context_id": update.context_id}
    if isinstance(update, TaskStatusUpdateEvent):
        return {"kind": "status", **head, **shown_status(update.status), "final": update.final}
    assert isinstance(update, TaskArtifactUpdateEvent)
    return {
        "kind": "artifact",
        **head,
        "append": bool(update.append),
        "last": bool(update.last_chunk),
        **shown_artifact(update.artifact),
    }


def shown_task(task: Any) -> Asked:
    return {
        "id": task.id,
        "context_id": task.context_id,
        **shown_status(task.status),
        "history": [shown_message(message) for message in task.history or ()],
        "artifacts": [shown_artifact(artifact) for artifact in task.artifacts or ()],
    }


def shown_status(status: Any) -> Asked:
    return {
        "state": status.state.value.replace("-", "_"),
        "timed": bool(status.timestamp),
        **(shown_parts(status.message.parts) if status.message else {"text": ""}),
    }


def shown_message(message: Any) -> Asked:
    return {
        "message_id": message.message_id,
        "context_id": message.context_id,
        "id": message.task_id,
        "role": message.role.value,
        **shown_parts(message.parts),
    }


def shown_artifact(artifact: Any) -> Asked:
    return {"artifact_id": artifact.artifact_id, "name": artifact.name, **shown_parts(artifact.parts)}


def shown_parts(parts: Any) -> Asked:
    roots = [part.root for part in parts]
    files = [root.file for root in roots if isinstance(root, FilePart)]
    return {
        "text": "".join(root.text for root in roots if isinstance(root, TextPart)),
        "data": [root.data for root in roots if isinstance(root, DataPart)],
        "raw": [base64.b64decode(file.bytes).hex() for file in files if isinstance(file, FileWithBytes)],
        "uris": [file.uri for file in files if isinstance(file, FileWithUri)],
        "files": [[file.name, file.mime_type] for file in files if file.name],
    }


def describe(error: Exception) -> Asked:
    inner = getattr(error, "error", None)
    return {
        "status": getattr(error, "status_code", None),
        "code": getattr(inner, "code", None),
        "data": getattr(inner, "data", None),
    }


if __name__ == "__main__":
    own = vars(sys.modules[__name__])
    names = ("card", "send", "stream", "subscribe", "get", "cancel", "push_create", "push_get")
    drive({name: own[name] for name in names}, describe)
