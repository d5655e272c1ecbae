"""Orchestrators: conversations with retries, copies, streams, questions and cancels, each step written down."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from server.chaos.client import Answer, Wire, message, pause

# A message that has no outcome so long after the last fault never gets one.
SETTLE_SECONDS = 30.0
SETTLED = ("COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED")
UNSUPPORTED = -32004
NOT_FOUND = -32001


@dataclass(slots=True)
class Sent:
    """One message and what its sender saw of it. `state` is '' until an outcome came."""

    id: str
    context: str
    text: str
    sender: int
    acknowledged: bool = False
    task: str = ""
    state: str = ""
    heard: list[str] = field(default_factory=list)
    canceled: bool = False
    hook: str = ""
    pieces: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


class Book:
    """Everything the orchestrators saw, and what they found wrong on the spot."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.stopping = asyncio.Event()
        self.deadline = float("inf")

    def stop(self, seconds: float) -> None:
        """No new messages; what is under way has so long."""
        self.stopping.set()
        self.deadline = time.monotonic() + seconds

    def add(self, sent: Sent) -> Sent:
        self.sent.append(sent)
        return sent


class Orchestrator:
    """One client; several may share a context, and then their turns queue."""

    def __init__(self, number: int, context: str, wire: Wire, rng: random.Random, book: Book, hook: str) -> None:
        self._number = number
        self._context = context
        self._wire = wire
        self._rng = rng
        self._book = book
        self._hook = hook
        self._sent = 0

    async def run(self) -> None:
        doing = (self._plain, self._copies, self._stream, self._ask, self._cancel)
        while not self._book.stopping.is_set():
            (do,) = self._rng.choices(doing, weights=(45, 20, 20, 5, 10))
            await do()
            self._book.counts["turns"] += 1

    def _new(self, text: str) -> Sent:
        self._sent += 1
        # The id is part of the run: the same seed gives the same messages.
        message_id = f"{self._number:02d}-{self._sent:05d}-{self._rng.getrandbits(32):08x}"
        hook = self._hook if self._rng.random() < 0.3 else ""
        return self._book.add(Sent(message_id, self._context, text, self._number, hook=hook))

    def _params(self, sent: Sent, task: str | None = None, **configuration: Any) -> dict[str, Any]:
        if sent.hook:
            configuration["taskPushNotificationConfig"] = {"url": sent.hook}
        params = message(sent.text, sent.id, sent.context, task)
        return {**params, "configuration": configuration} if configuration else params

    def _nap(self) -> str:
        # Some are long enough to be running when their worker is frozen past its death.
        return f"nap {self._rng.choice((0, 10, 30, 60, 100, 1200))}"

    async def _plain(self) -> None:
        await self.outcome(self._new(self._nap()))

    async def _copies(self) -> None:
        """The same message to several workers at once, as impatient clients and balancers send it."""
        sent = self._new(self._nap())
        params = self._params(sent)
        answers = await asyncio.gather(*(self._wire.call("SendMessage", params) for _ in range(3)))
        sent.acknowledged = any(answer is not None and answer.status in (200, 409) for answer in answers)
        await self.outcome(sent)

    async def _ask(self) -> None:
        """A question, and the answer to it in the same task."""
        asked = self._new("ask 0")
        await self.outcome(asked)
        if asked.state == "INPUT_REQUIRED":
            await self.outcome(self._new("nap 10"), asked.task)

    async def _cancel(self) -> None:
        sent = self._new("nap 3000")
        answer = await self._wire.call("SendMessage", self._params(sent, returnImmediately=True))
        task = answer.task if answer else None
        if task is not None:
            sent.acknowledged, sent.canceled = True, True
            await asyncio.sleep(self._rng.uniform(0, 0.1))
            await self._wire.call("CancelTask", {"id": task["id"]})
        await self.outcome(sent)

    async def _stream(self) -> None:
        """A stream, resumed on any worker after each break, until its last event was seen."""
        sent = self._new(f"stream {self._rng.choice((3, 10, 25))}")
        params = self._params(sent)
        while not sent.state and time.monotonic() < self._book.deadline:
            last = sent.ids[-1] if sent.ids else None
            async for seen in self._wire.events("SendStreamingMessage", params, last):
                if isinstance(seen, Answer):
                    self._judge(sent, seen)
                    break
                self._see(sent, *seen)
            if not sent.state:
                self._book.counts["retries"] += 1
                await pause(self._rng)
        await self.outcome(sent)

    def _see(self, sent: Sent, event_id: str, result: dict[str, Any]) -> None:
        """One event of the sender's own stream."""
        sent.acknowledged = True
        [(kind, item)] = result.items()
        if event_id and kind != "task" and sent.ids and _position(event_id) <= _position(sent.ids[-1]):
            self._book.problems.append(f"{sent.id}: event {event_id} came after {sent.ids[-1]}")
        if event_id:
            sent.ids.append(event_id)
        if kind == "artifactUpdate":
            sent.pieces.append(int(item["artifact"]["parts"][0]["text"]))
        elif kind == "task":
            sent.task = item["id"]
            # A whole task takes the place of the events it holds.
            texts = [part["text"] for one in item.get("artifacts", []) for part in one["parts"]]
            sent.pieces = [int(word) for text in texts for word in text.split()]
        if kind in ("task", "statusUpdate"):
            state = item["status"]["state"].removeprefix("TASK_STATE_")
            if state in SETTLED:
                sent.state = state

    async def outcome(self, sent: Sent, task: str | None = None) -> None:
        """Sends the message until it has its outcome: what a careful client does."""
        sent.state = ""
        while not sent.state:
            answer = await self._wire.call("SendMessage", self._params(sent, task))
            if answer is not None and self._judge(sent, answer):
                return
            if time.monotonic() > self._book.deadline:
                return
            self._book.counts["retries"] += 1
            await pause(self._rng)

    def _judge(self, sent: Sent, answer: Answer) -> bool:
        """Whether this is the message's outcome."""
        if answer.status == 409:
            sent.acknowledged = True
            return False
        if answer.status in (429, 503):
            return False
        if answer.code in (UNSUPPORTED, NOT_FOUND):
            sent.state = "ERROR"  # its task ended before its turn came
            return True
        task = answer.task
        if task is None:
            self._book.problems.append(f"{sent.id} ({sent.text}): HTTP {answer.status}, code {answer.code}")
            sent.state = "ERROR"
            return True
        sent.acknowledged = True
        state = task["status"]["state"].removeprefix("TASK_STATE_")
        if state not in SETTLED:
            return False
        sent.task, sent.state = task["id"], state
        said = task["status"].get("message") or {}
        data = [part["data"] for part in said.get("parts", []) if "data" in part]
        sent.heard = next((one["heard"] for one in data if "heard" in one), [])
        return True


def _position(event_id: str) -> tuple[int, int]:
    fence, _, seq = event_id.partition("-")
    return int(fence), int(seq)
