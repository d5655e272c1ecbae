"""Drives the official client 1.x: JSON-RPC and HTTP+JSON of 1.0, and its compatibility with 0.3 over JSON-RPC."""

from __future__ import annotations

import sys
from typing import Any

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import get_data_parts, get_raw_parts, get_text_parts, get_url_parts
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from httpx import AsyncClient

from tests.interop.drivers.link import Emit, drive

Asked = dict[str, Any]
_clients: dict[tuple[str, str, bool], Any] = {}


async def fetch_card(url: str, binding: str) -> Any:
    async with AsyncClient() as http:
        card = await A2ACardResolver(http, url).get_agent_card()
    if binding == "compat":
        old = [entry for entry in card.supported_interfaces if entry.protocol_version == "0.3"]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(old)
    return card


async def client(asked: Asked, *, streaming: bool = True) -> Any:
    """The client that the server's card leads to, with the time-outs that the library comes with."""
    key = (asked["url"], asked["binding"], streaming)
    if key not in _clients:
        bindings = ["HTTP+JSON"] if asked["binding"] == "rest" else ["JSONRPC"]
        config = ClientConfig(streaming=streaming, supported_protocol_bindings=bindings)
        _clients[key] = ClientFactory(config).create(await fetch_card(asked["url"], asked["binding"]))
    return _clients[key]


def request(asked: Asked) -> Any:
    parts = [Part(text=asked["text"])]
    for extra in asked.get("parts", ()):
        part = Part(filename=extra.get("filename", ""), media_type=extra.get("media_type", ""))
        if "raw" in extra:
            part.raw = bytes.fromhex(extra["raw"])
        elif "uri" in extra:
            part.url = extra["uri"]
        else:
            part.data.struct_value.update(extra["data"])
        parts.append(part)
    message = Message(
        message_id=asked["message_id"],
        role=Role.ROLE_USER,
        parts=parts,
        context_id=asked.get("context_id", ""),
        task_id=asked.get("task_id", ""),
    )
    made = SendMessageRequest(message=message)
    if "history_length" in asked:
        made.configuration.history_length = asked["history_length"]
    if not asked.get("wait", True):
        made.configuration.return_immediately = True
    if "callback" in asked:
        made.configuration.task_push_notification_config.url = asked["callback"]
    return made


async def card(asked: Asked, _emit: Emit) -> Any:
    found: AgentCard = await fetch_card(asked["url"], asked["binding"])
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
    [only] = [event async for event in waiting.send_message(request(asked))]
    return shown_event(only)


async def stream(asked: Asked, emit: Emit) -> Any:
    return await follow((await client(asked)).send_message(request(asked)), emit)


async def subscribe(asked: Asked, emit: Emit) -> Any:
    return await follow((await client(asked)).subscribe(SubscribeToTaskRequest(id=asked["task_id"])), emit)


async def follow(events: Any, emit: Emit) -> Any:
    """Shows each event; the result is the task as this library folds it."""
    task: Any = None
    async for event in events:
        emit(shown_event(event))
        if event.HasField("task"):
            assert task is None, "a second task in one stream"
            task = event.task
        elif event.HasField("status_update"):
            task.status.CopyFrom(event.status_update.status)
        elif event.HasField("artifact_update"):
            append_artifact_to_task(task, event.artifact_update)
    return shown_task(task) if task is not None else None


async def get(asked: Asked, _emit: Emit) -> Any:
    wanted = GetTaskRequest(id=asked["task_id"])
    if "history_length" in asked:
        wanted.history_length = asked["history_length"]
    return shown_task(await (await client(asked)).get_task(wanted))


async def list_tasks(asked: Asked, _emit: Emit) -> Any:
    wanted = ListTasksRequest(context_id=asked.get("context_id", ""), page_token=asked.get("page_token", ""))
    if "page_size" in asked:
        wanted.page_size = asked["page_size"]
    if "state" in asked:
        wanted.status = TaskState.Value(f"TASK_STATE_{asked['state'].upper()}")
    if "include_artifacts" in asked:
        wanted.include_artifacts = asked["include_artifacts"]
    page = await (await client(asked)).list_tasks(wanted)
    return {
        "tasks": [shown_task(task) for task in page.tasks],
        "next": page.next_page_token,
        "total": page.total_size,
        "page_size": page.page_size,
    }


async def cancel(asked: Asked, _emit: Emit) -> Any:
    return shown_task(await (await client(asked)).cancel_task(CancelTaskRequest(id=asked["task_id"])))


async def push_create(asked: Asked, _emit: Emit) -> Any:
    config = TaskPushNotificationConfig(task_id=asked["task_id"], url=asked["callback"])
    await (await client(asked)).create_task_push_notification_config(config)


async def push_get(asked: Asked, _emit: Emit) -> Any:
    wanted = GetTaskPushNotificationConfigRequest(task_id=asked["task_id"], id="any")
    await (await client(asked)).get_task_push_notification_config(wanted)


async def push_list(asked: Asked, _emit: Emit) -> Any:
    wanted = ListTaskPushNotificationConfigsRequest(task_id=asked["task_id"])
    await (await client(asked)).list_task_push_notification_configs(wanted)


async def push_delete(asked: Asked, _emit: Emit) -> Any:
    wanted = DeleteTaskPushNotificationConfigRequest(task_id=asked["task_id"], id="any")
    await (await client(asked)).delete_task_push_notification_config(wanted)


def shown_event(event: Any) -> Asked:
    if event.HasField("task"):
        return {"kind": "task", **shown_task(event.task)}
    if event.HasField("message"):
        return {"kind": "message", **shown_message(event.message)}
    if event.HasField("status_update"):
        update = event.status_update
        return {
            "kind": "status",
            "id": update.task_id,
            "context_id": update.context_id,
            **shown_status(update.status),
            "final": None,
        }
    assert event.HasField("artifact_update"), "an event without content"
    update = event.artifact_update
    return {
        "kind": "artifact",
        "id": update.task_id,
        "context_id": update.context_id,
        "append": update.append,
        "last": update.last_chunk,
        **shown_artifact(update.artifact),
    }


def shown_task(task: Task) -> Asked:
    return {
        "id": task.id,
        "context_id": task.context_id,
        **shown_status(task.status),
        "history": [shown_message(message) for message in task.history],
        "artifacts": [shown_artifact(artifact) for artifact in task.artifacts],
    }


def shown_status(status: Any) -> Asked:
    return {
        "state": TaskState.Name(status.state).removeprefix("TASK_STATE_").lower(),
        "timed": status.HasField("timestamp"),
        **(shown_parts(status.message.parts) if status.HasField("message") else {"text": ""}),
    }


def shown_message(message: Any) -> Asked:
    return {
        "message_id": message.message_id,
        "context_id": message.context_id,
        "id": message.task_id,
        "role": Role.Name(message.role).removeprefix("ROLE_").lower(),
        **shown_parts(message.parts),
    }


def shown_artifact(artifact: Any) -> Asked:
    return {"artifact_id": artifact.artifact_id, "name": artifact.name, **shown_parts(artifact.parts)}


def shown_parts(parts: Any) -> Asked:
    return {
        "text": "".join(get_text_parts(parts)),
        "data": get_data_parts(parts),
        "raw": [raw.hex() for raw in get_raw_parts(parts)],
        "uris": get_url_parts(parts),
        "files": [[part.filename, part.media_type] for part in parts if part.filename],
    }


if __name__ == "__main__":
    own = vars(sys.modules[__name__])
    names = ("card", "send", "stream", "subscribe", "get", "cancel")
    pushes = ("push_create", "push_get", "push_list", "push_delete")
    drive(
        {**{name: own[name] for name in (*names, *pushes)}, "list": list_tasks},
        lambda error: {"data": getattr(error, "data", None)},
    )
