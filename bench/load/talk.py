"""What one connection says, and whether the answers are right."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any, Protocol

Json = dict[str, Any]

_RANDOM = os.urandom(5).hex()
_NUMBERS = itertools.count(1)


class Wrong(Exception):
    """The answer is not the right one."""


def message_id() -> str:
    """A UUID that nobody has used; cheaper than a random one."""
    number = next(_NUMBERS)
    return f"{_RANDOM[:8]}-{number >> 32 & 0xFFFF:04x}-4000-8{_RANDOM[7:]}-{number:012x}"


def send(
    dialect: str, text: str, *, identity: str = "", context: str = "", task: str = "", stream: bool = False
) -> Json:
    """A message as a JSON-RPC request of either dialect."""
    old = dialect == "0.3"
    message: Json = {
        "messageId": identity or message_id(),
        "role": "user" if old else "ROLE_USER",
        "parts": [{"kind": "text", "text": text} if old else {"text": text}],
    }
    if old:
        message["kind"] = "message"
    if context:
        message["contextId"] = context
    if task:
        message["taskId"] = task
    params: Json = {"message": message}
    if old and not stream:
        params["configuration"] = {"blocking": True}
    verb = ("message/stream" if stream else "message/send") if old else f"Send{'Streaming' if stream else ''}Message"
    return {"jsonrpc": "2.0", "id": 1, "method": verb, "params": params}


def task_in(status: int, body: bytes) -> Json:
    """The task of a good answer."""
    try:
        result: Json = json.loads(body)["result"]
    except (ValueError, KeyError, TypeError):
        raise Wrong(f"HTTP {status}: {body[:500]!r}") from None
    task: Json = result.get("task", result)
    return task


def state_of(task: Json) -> str:
    spelt: str = task["status"]["state"]
    return spelt.removeprefix("TASK_STATE_").lower().replace("-", "_")


def said_in(task: Json) -> str:
    message = task["status"].get("message") or {}
    return "".join(part.get("text", "") for part in message.get("parts", ()))


def expect(task: Json, state: str, said: str | None = None) -> None:
    if state_of(task) != state or (said is not None and said_in(task) != said):
        raise Wrong(f"wanted {state} {said!r}, got {json.dumps(task)[:500]}")


class Talk(Protocol):
    """One conversation after the other, over one connection."""

    def request(self) -> Json:
        """The next request."""

    def check(self, status: int, body: bytes) -> None:
        """Judges its answer; raises Wrong."""


class EchoTalk:
    """Each message begins a context of its own and gets its text back."""

    def __init__(self, plan: Json) -> None:
        self._dialect: str = plan["dialect"]
        self._context: str = plan.get("context", "")
        self._text = ""

    def request(self) -> Json:
        self._text = f"hello {next(_NUMBERS):09d}"
        return send(self._dialect, self._text, context=self._context)

    def check(self, status: int, body: bytes) -> None:
        expect(task_in(status, body), "completed", f"echo: {self._text}")


class AskTalk:
    """Each message leaves a context that waits for its caller."""

    def __init__(self, plan: Json) -> None:
        self._dialect: str = plan["dialect"]

    def request(self) -> Json:
        return send(self._dialect, "ask")

    def check(self, status: int, body: bytes) -> None:
        expect(task_in(status, body), "input_required", "What?")


class SameTalk:
    """One message over and over: replayed when it has ended, refused with 409 while it runs."""

    def __init__(self, plan: Json) -> None:
        self._request: Json = plan["request"]
        self._status: int = plan["status"]
        self._task: str = plan["task"]

    def request(self) -> Json:
        return self._request

    def check(self, status: int, body: bytes) -> None:
        if status != self._status or self._task.encode() not in body:
            raise Wrong(f"wanted HTTP {self._status} about {self._task}, got {status}: {body[:500]!r}")


class ListTalk:
    """The first page of the caller's tasks."""

    def __init__(self, plan: Json) -> None:
        self._page: int = plan["page"]
        self._total: int = plan["total"]

    def request(self) -> Json:
        return {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": self._page}}

    def check(self, status: int, body: bytes) -> None:
        result = json.loads(body).get("result", {})
        if len(result.get("tasks", ())) != self._page or result.get("totalSize", 0) < self._total:
            raise Wrong(f"wanted {self._page} tasks of at least {self._total}, got {body[:500]!r}")


class LogTalk:
    """A closed task's log from its beginning."""

    def __init__(self, plan: Json) -> None:
        self._task: str = plan["task"]
        self._events: int = plan["events"]

    def request(self) -> Json:
        return {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": self._task}}

    def check(self, status: int, body: bytes) -> None:
        chunks = body.count(b'"artifactUpdate"')
        if chunks != self._events or b"TASK_STATE_COMPLETED" not in body[-2000:]:
            raise Wrong(f"wanted {self._events} chunks, got HTTP {status}, {chunks}: {body[-500:]!r}")


class BankTalk:
    """The transfer of examples/bank, from the wish to the receipt: four turns of one context."""

    STEPS = (
        ("I want to send money", "input_required", "Who should get the money?"),
        ("Bob", "input_required", "How many euros should Bob get?"),
        ("50", "input_required", "Send 50"),
        ("yes", "completed", "Done: 50"),
    )

    def __init__(self, plan: Json) -> None:
        self._dialect: str = plan["dialect"]
        self._step = 0
        self._context = ""

    def request(self) -> Json:
        if self._step == 0:
            self._context = ""
        return send(self._dialect, self.STEPS[self._step][0], context=self._context)

    def check(self, status: int, body: bytes) -> None:
        task = task_in(status, body)
        _, state, beginning = self.STEPS[self._step]
        expect(task, state)
        if beginning not in said_in(task):
            raise Wrong(f"wanted {beginning!r}, got {said_in(task)!r}")
        self._context = task["contextId"]
        self._step = (self._step + 1) % len(self.STEPS)


TALKS: dict[str, Callable[[Json], Talk]] = {
    "echo": EchoTalk,
    "ask": AskTalk,
    "bank": BankTalk,
    "same": SameTalk,
    "list": ListTalk,
    "log": LogTalk,
}
