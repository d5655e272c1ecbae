"""a2a-redis with the a2a-sdk it was made for (0.3), its task store and its streams queue: `a2aredis.py URL PORT`."""

from __future__ import annotations

import asyncio
import sys
import time

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentSkill,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils import new_agent_text_message, new_task, new_text_artifact
from a2a_redis import RedisStreamsQueueManager, RedisTaskStore
from a2a_redis.utils import create_redis_client


class Echo(AgentExecutor):  # type: ignore[misc]  # the peer is in another environment
    """The agent of bench/agents.py."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        task = new_task(context.message)
        task.id, task.context_id = context.task_id, context.context_id
        said = new_agent_text_message(f"echo: {text}", task.context_id, task.id)
        done = TaskStatus(state=TaskState.completed, message=said)
        match text.split():
            case ["chunks" | "pace", count, *milliseconds]:
                await event_queue.enqueue_event(task)
                for number in range(int(count)):
                    text = f"{time.monotonic_ns()} " if milliseconds else f"chunk {number} "
                    artifact = new_text_artifact(name="chunks", text=text)
                    artifact.artifact_id = f"{task.id}-chunks"
                    await event_queue.enqueue_event(
                        TaskArtifactUpdateEvent(
                            task_id=task.id, context_id=task.context_id, artifact=artifact, append=number > 0
                        )
                    )
                    if milliseconds:
                        await asyncio.sleep(int(milliseconds[0]) / 1000)
            case _:
                task.status = done
                await event_queue.enqueue_event(task)
                return
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=done, final=True)
        )

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


if __name__ == "__main__":
    _, url, port = sys.argv
    card = AgentCard(
        name="Bench",
        description="Says it again.",
        version="1",
        url=f"http://127.0.0.1:{port}/",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["bench"])],
    )
    client = create_redis_client(url)
    handler = DefaultRequestHandler(Echo(), RedisTaskStore(client), RedisStreamsQueueManager(client))
    uvicorn.run(
        A2AStarletteApplication(card, handler).build(),
        port=int(port),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )
