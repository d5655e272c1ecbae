"""One crash: a victim, who talks to it, and what was said, in a namespace of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from stores import Store, open_store
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Ledger
from tests.support.client import Item, Reader, Speaker
from tests.support.crash import Point
from tests.support.engines import Engine
from tests.support.wait import wait_until
from tests.support.zygote import Forked, Zygote

SETTLED = ("completed", "failed", "canceled", "rejected", "input_required")


@dataclass
class Said:
    """One message, and what its sender saw of it before the crash."""

    text: str
    context: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    task: str | None = None
    """The task it continues."""
    hook: str = ""
    canceled: bool = False
    """Its sender asked for the end of its task."""
    told: str = ""
    """The settled state its sender was told."""
    task_id: str = ""
    pieces: list[str] = field(default_factory=list)
    cursor: str | None = None
    streamed: bool = False


class Cell:
    """The workers of one namespace, at most one of them alive at a time."""

    def __init__(self, engine: Engine, zygote: Zygote, http: httpx.AsyncClient, agent: str, hook: Hook) -> None:
        self.engine = engine
        self.namespace = f"x{uuid.uuid4().hex[:12]}"
        self.context = uuid.uuid4().hex
        self.agent = agent
        self.hook = hook
        self.http = http
        self.ledger = Ledger(zygote.folder)
        self.said: list[Said] = []
        self.workers: list[Forked] = []
        self._zygote = zygote

    def start(self, *, since: str = "admit_turn", point: Point | None = None, observes: bool = False) -> Forked:
        """A worker. One that does not observe leaves the dead alone."""
        settings = {
            "redis_url": self.engine.url,
            "namespace": self.namespace,
            "heartbeat_seconds": 0.1,
            # Nobody else lives here, so that nobody can be taken for dead who is only slow.
            "presumed_dead_seconds": 0.5 if observes else 600,
            "cancel_wait_seconds": 3,
            "drain_seconds": 1,
            "max_contexts": 3,
            "push_notifications_enabled": True,
            "push_allow_private_targets_for_tests_only": True,
            "push_retry_seconds": 0.05,
        }
        self.workers.append(self._zygote.fork(settings, self.agent, since, point))
        return self.workers[-1]

    @property
    def victim(self) -> Forked:
        return self.workers[-1]

    @property
    def speaker(self) -> Speaker:
        return Speaker(self.http, self.victim.url)

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        opened = open_store(self.engine.url, self.namespace)
        try:
            yield opened
        finally:
            await opened.close()

    async def until(self, look: Callable[[], object], what: str) -> bool:
        """Waits for it, or for the victim's death; whether it came true."""
        await wait_until(lambda: look() or self.victim.dead.is_set(), what=what)
        return bool(look())

    # --- what its client does; a connection that breaks is what the crash looks like ------------------------------

    def params(self, said: Said, *, wait: bool) -> dict[str, Any]:
        mine = Registrar(self.speaker)
        how: dict[str, Any] = {"message_id": said.id, "context": said.context, "task": said.task, "wait": wait}
        if said.hook:
            return mine.params(said.text, mine.config(said.hook), **how)
        return self.speaker.send_params(said.text, **how)

    async def say(self, text: str, *, wait: bool = True, task: str | None = None, hook: bool = False) -> Item | None:
        """The answer; None where the victim died first."""
        said = Said(text, self.context, task=task, hook=self.hook.url if hook else "")
        self.said.append(said)
        with suppress(httpx.TransportError):
            answer = await self.speaker.call("send", self.params(said, wait=wait))
            item = answer.item
            self._note(said, item)
            return item
        return None

    async def stream(self, text: str, *, hook: bool = False) -> None:
        said = Said(text, self.context, hook=self.hook.url if hook else "", streamed=True)
        self.said.append(said)
        with suppress(httpx.TransportError):
            async with self.speaker._open("stream", self.params(said, wait=True), None) as reader:
                await self.read(said, reader)

    async def read(self, said: Said, reader: Reader) -> None:
        """What a stream shows, until it ends; a break is raised."""
        while (frame := await reader.frame()) is not None:
            if frame.comment is not None:
                continue
            said.cursor = frame.id or said.cursor
            item = frame.item
            if item.kind == "artifact":
                if not item.raw.get("append"):
                    said.pieces = []  # begun anew by another attempt
                said.pieces += item.text.split()
            else:
                self._note(said, item)

    async def cancel(self, said: Said) -> None:
        said.canceled = True
        with suppress(httpx.TransportError):
            await self.speaker.cancel(said.task_id)

    def _note(self, said: Said, item: Item) -> None:
        if item.kind == "message":
            said.told = "message"
            return
        said.task_id = item.id
        said.told = item.state if item.state in SETTLED else ""

    def show(self) -> str:
        return "\n".join(f"--- {worker.pid} {' '.join(worker.trace)}\n{worker.log[-3000:]}" for worker in self.workers)

    async def close(self) -> None:
        await asyncio.gather(*(worker.kill() for worker in self.workers))
