"""The official a2a-sdk 1.x as a server: `sdk1.py memory|DATABASE_URL PORT`.

With a database it runs in its cluster mode: the versioned task store and the event stream over the same tables.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_artifact, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from starlette.applications import Starlette


class Echo(AgentExecutor):  # type: ignore[misc]  # the peer is in another environment
    """The agent of bench/agents.py."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        task = new_task_from_user_message(context.message)
        task.id, task.context_id = context.task_id, context.context_id
        done = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=new_text_message(f"echo: {text}"))
        match text.split():
            case ["chunks", count]:
                await self._chunks(task, event_queue, int(count), None)
            case ["pace", count, milliseconds]:
                await self._chunks(task, event_queue, int(count), int(milliseconds) / 1000)
            case ["hold", seconds]:
                task.status.state = TaskState.TASK_STATE_WORKING
                await event_queue.enqueue_event(task)
                await asyncio.sleep(float(seconds))
            case _:
                # One event is all that the shortest turn needs, and the cheapest for this server.
                task.status.CopyFrom(done)
                await event_queue.enqueue_event(task)
                return
        update = TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=done)
        await event_queue.enqueue_event(update)

    async def _chunks(self, task: Any, event_queue: EventQueue, count: int, pause: float | None) -> None:
        task.status.state = TaskState.TASK_STATE_WORKING
        await event_queue.enqueue_event(task)
        artifact_id = f"{task.id}-chunks"
        for number in range(count):
            text = f"chunk {number} " if pause is None else f"{time.monotonic_ns()} "
            artifact = new_text_artifact(name="chunks", text=text)
            artifact.artifact_id = artifact_id
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    task_id=task.id, context_id=task.context_id, artifact=artifact, append=number > 0
                )
            )
            if pause is not None:
                await asyncio.sleep(pause)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        status = TaskStatus(state=TaskState.TASK_STATE_CANCELED)
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(task_id=context.task_id, context_id=context.context_id, status=status)
        )


def application(store: str, port: int) -> Starlette:
    card = AgentCard(
        name="Bench",
        description="Says it again.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        skills=[AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["bench"])],
    )
    kept: dict[str, Any] = {"task_store": InMemoryTaskStore()}
    if store != "memory":
        from a2a.server.cluster import DatabaseTaskEventStream, VersionedDatabaseTaskStore
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(store)
        kept = {"task_store": VersionedDatabaseTaskStore(engine), "event_stream": DatabaseTaskEventStream(engine)}
    handler = DefaultRequestHandlerV2(agent_executor=Echo(), agent_card=card, **kept)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if store != "memory":
            for part in kept.values():
                await part.initialize()
        yield

    return Starlette(routes=create_jsonrpc_routes(handler, "/"), lifespan=lifespan)


if __name__ == "__main__":
    _, chosen, listen = sys.argv
    uvicorn.run(
        application(chosen, int(listen)),
        port=int(listen),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )
