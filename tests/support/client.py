"""A small client of both dialects and both bindings, for tests: what it reads it shows in one form.

A wire is "0.3" (JSON-RPC), "1.0" (JSON-RPC) or "rest" (1.0's HTTP+JSON). States are shown as `input_required` whatever
their spelling, errors by their JSON-RPC code whatever their binding.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from server.protocol import errors

Wire = Literal["0.3", "1.0", "rest"]
WIRES: tuple[Wire, ...] = ("0.3", "1.0", "rest")

_METHODS: dict[str, tuple[str, str]] = {
    "send": ("message/send", "SendMessage"),
    "stream": ("message/stream", "SendStreamingMessage"),
    "get": ("tasks/get", "GetTask"),
    "list": ("", "ListTasks"),
    "cancel": ("tasks/cancel", "CancelTask"),
    "subscribe": ("tasks/resubscribe", "SubscribeToTask"),
}
_KINDS = {"task": "task", "message": "message", "statusUpdate": "status", "artifactUpdate": "artifact"}
_CODES = {
    **{kind.reason: kind.code for kind in errors.A2AError.__subclasses__() if isinstance(kind.reason, str)},
    **dict.fromkeys(("CONTEXT_LIMIT", "QUEUE_FULL"), -32053),
    **dict.fromkeys(("STORE_UNAVAILABLE", "DRAINING", "STORE_FULL"), -32054),
    "BODY_TOO_LARGE": -32600,
    "UNSUPPORTED_MEDIA_TYPE": -32600,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as its receiver needs it."""

    code: int
    reason: str
    message: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A task, message, status or artifact update, in the same words for every wire."""

    kind: str
    raw: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.raw["id"] if self.kind == "task" else self.raw["taskId"])

    @property
    def context(self) -> str:
        return str(self.raw["contextId"])

    @property
    def state(self) -> str:
        spelt: str = self.raw["status"]["state"]
        return spelt.removeprefix("TASK_STATE_").lower().replace("-", "_")

    @property
    def parts(self) -> list[dict[str, Any]]:
        if self.kind == "artifact":
            return list(self.raw["artifact"]["parts"])
        said = self.raw if self.kind == "message" else self.raw["status"].get("message") or {}
        return list(said.get("parts", []))

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if "text" in part)

    @property
    def data(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for part in self.parts:
            merged.update(part.get("data") or {})
        return merged

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.raw.get("metadata") or {})

    @property
    def history(self) -> list[str]:
        return ["".join(part.get("text", "") for part in said["parts"]) for said in self.raw.get("history", [])]

    @property
    def artifacts(self) -> list[str]:
        return ["".join(part.get("text", "") for part in one["parts"]) for one in self.raw.get("artifacts", [])]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: httpx.Headers
    body: Any
    wire: Wire

    @property
    def fault(self) -> Fault:
        assert isinstance(self.body, dict), self
        assert "error" in self.body, self
        return _fault(self.body["error"], self.wire)

    @property
    def result(self) -> Any:
        assert self.status == 200, self
        assert "error" not in self.body, self
        return self.body if self.wire == "rest" else self.body["result"]

    @property
    def item(self) -> Item:
        """The task or message of a send."""
        result = self.result
        if self.wire == "0.3":
            return Item(result["kind"], result)
        [(name, raw)] = result.items()
        return Item(_KINDS[name], raw)

    @property
    def task(self) -> Item:
        """The task of a send, get or cancel."""
        result = self.result
        if "task" in result:
            result = result["task"]
        assert "status" in result, self
        return Item("task", result)


@dataclass(frozen=True, slots=True)
class Frame:
    """One block of a stream: an event with its lines, or a comment."""

    wire: Wire
    id: str | None = None
    event: str | None = None
    data: Any = None
    comment: str | None = None
    raw: str = ""

    @property
    def fault(self) -> Fault | None:
        return _fault(self.data["error"], self.wire) if "error" in self.data else None

    @property
    def item(self) -> Item:
        assert self.fault is None, self
        body = self.data if self.wire == "rest" else self.data["result"]
        if self.wire == "0.3":
            return Item(body["kind"].removesuffix("-update"), body)
        [(name, raw)] = body.items()
        return Item(_KINDS[name], raw)


class Reader:
    """The frames of an open stream."""

    def __init__(self, response: httpx.Response, wire: Wire) -> None:
        self.response = response
        self.wire = wire
        self.seen: list[Frame] = []
        self._frames = self._read()

    @property
    def is_stream(self) -> bool:
        return self.response.headers["content-type"].startswith("text/event-stream")

    async def answer(self) -> Answer:
        """The body of a refusal that came instead of a stream."""
        body = json.loads(await self.response.aread())
        return Answer(self.response.status_code, self.response.headers, body, self.wire)

    async def frame(self) -> Frame | None:
        """The next event or comment; None at the end."""
        return await anext(self._frames, None)

    async def next(self) -> Item:
        """The next event's item; comments are passed over."""
        while True:
            frame = await self.frame()
            assert frame is not None, f"the stream ended after {self.seen}"
            if frame.comment is None:
                return frame.item

    async def until(self, state: str) -> list[Item]:
        """Items up to the status update with this state."""
        items = [await self.next()]
        while not (items[-1].kind == "status" and items[-1].state == state):
            items.append(await self.next())
        return items

    async def rest(self) -> list[Item]:
        """All items up to the end of the stream."""
        return [frame.item async for frame in self._frames if frame.comment is None]

    @property
    def last_id(self) -> str:
        return next(frame.id for frame in reversed(self.seen) if frame.id is not None)

    async def close(self) -> None:
        await self._frames.aclose()

    async def _read(self) -> Any:
        lines: list[str] = []
        async for line in self.response.aiter_lines():
            if line:
                lines.append(line)
                continue
            frame = _frame(lines, self.wire)
            lines = []
            self.seen.append(frame)
            yield frame
        assert not lines, f"an unfinished frame at the end: {lines}"


class Speaker:
    """One caller of one server in one wire."""

    def __init__(self, http: httpx.AsyncClient, base: str, wire: Wire = "1.0") -> None:
        self.http = http
        self.base = base
        self.wire: Wire = wire

    def message(
        self,
        text: str = "hello",
        *,
        message_id: str | None = None,
        context: str | None = None,
        task: str | None = None,
        **members: Any,
    ) -> dict[str, Any]:
        old = self.wire == "0.3"
        part = {"kind": "text", "text": text} if old else {"text": text}
        made: dict[str, Any] = {"messageId": message_id or str(uuid.uuid4()), "parts": [part], **members}
        made["role"] = "user" if old else "ROLE_USER"
        if old:
            made["kind"] = "message"
        if context is not None:
            made["contextId"] = context
        if task is not None:
            made["taskId"] = task
        return made

    def send_params(
        self, text: str = "hello", *, wait: bool = True, history: int | None = None, **ids: Any
    ) -> dict[str, Any]:
        configuration: dict[str, Any] = {}
        if not wait:
            configuration = {"blocking": False} if self.wire == "0.3" else {"returnImmediately": True}
        if history is not None:
            configuration["historyLength"] = history
        params: dict[str, Any] = {"message": self.message(text, **ids)}
        return {**params, "configuration": configuration} if configuration else params

    async def send(self, text: str = "hello", **how: Any) -> Answer:
        return await self.call("send", self.send_params(text, **how))

    async def get(self, task_id: str, *, history: int | None = None) -> Answer:
        return await self.call("get", {"id": task_id, **({} if history is None else {"historyLength": history})})

    async def cancel(self, task_id: str) -> Answer:
        return await self.call("cancel", {"id": task_id})

    async def list(self, **filters: Any) -> Answer:
        return await self.call("list", filters)

    async def call(self, operation: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        response = await self.http.send(self._request(operation, params, headers or {}))
        return Answer(response.status_code, response.headers, response.json(), self.wire)

    @asynccontextmanager
    async def stream(self, text: str = "hello", *, last: str | None = None, **how: Any) -> AsyncIterator[Reader]:
        async with self._open("stream", self.send_params(text, **how), last) as reader:
            yield reader

    @asynccontextmanager
    async def subscribe(self, task_id: str, *, last: str | None = None) -> AsyncIterator[Reader]:
        async with self._open("subscribe", {"id": task_id}, last) as reader:
            yield reader

    @asynccontextmanager
    async def _open(self, operation: str, params: dict[str, Any], last: str | None) -> AsyncIterator[Reader]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last is not None else {})}
        response = await self.http.send(self._request(operation, params, headers), stream=True)
        reader = Reader(response, self.wire)
        try:
            yield reader
        finally:
            await reader.close()
            await response.aclose()

    def _request(self, operation: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Request:
        if self.wire == "rest":
            return self._rest_request(operation, params, headers)
        old, new = _METHODS[operation]
        if self.wire == "1.0":
            headers = {**headers, "A2A-Version": "1.0"}
        envelope = {
            "jsonrpc": "2.0",
            "id": "r1",
            "method": old if self.wire == "0.3" else new,
            "params": params,
        }
        return self.http.build_request("POST", self.base, json=envelope, headers=headers)

    def _rest_request(self, operation: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Request:
        headers = {**headers, "A2A-Version": "1.0"}
        match operation:
            case "send" | "stream":
                path, verb = f"/message:{operation}", "POST"
                return self.http.build_request(verb, self.base + path, json=params, headers=headers)
            case "cancel" | "subscribe":
                return self.http.build_request("POST", f"{self.base}/tasks/{params['id']}:{operation}", headers=headers)
        path = "/tasks" if operation == "list" else f"/tasks/{params['id']}"
        query = {name: value for name, value in params.items() if name != "id"}
        return self.http.build_request("GET", self.base + path, params=query, headers=headers)


def new_client(*, seconds: float = 30.0) -> httpx.AsyncClient:
    """Connections without a bound on their number; no proxy of the environment is asked, no certificates loaded."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(timeout=seconds, limits=limits, trust_env=False, verify=False)


def _fault(error: dict[str, Any], wire: Wire) -> Fault:
    if wire == "0.3":
        data = error.get("data") or {}
        return Fault(error["code"], data.get("reason", ""), error["message"], data)
    listed = error["details"] if wire == "rest" else error["data"]
    info = next(one for one in listed if one["@type"].endswith("ErrorInfo"))
    code = _CODES[info["reason"]] if wire == "rest" else error["code"]
    return Fault(code, info["reason"], error["message"], info.get("metadata", {}))


def _frame(lines: list[str], wire: Wire) -> Frame:
    raw = "\n".join(lines)
    if all(line.startswith(":") for line in lines):
        return Frame(wire, comment=raw.removeprefix(":").strip(), raw=raw)
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        assert colon, f"no field: {line!r}"
        assert name not in fields, f"a field twice in one event: {raw!r}"
        fields[name] = value.removeprefix(" ")
    assert set(fields) <= {"id", "event", "data"}, raw
    return Frame(wire, fields.get("id"), fields.get("event"), json.loads(fields["data"]), None, raw)
