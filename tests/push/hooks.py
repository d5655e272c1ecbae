"""A callback's receiver on loopback that keeps what it was told, and a caller that registers it in any wire."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from tests.push.handlers import Handlers
from tests.support.client import Answer, Speaker
from tests.support.wait import wait_until


@dataclass(frozen=True, slots=True)
class Told:
    """One POST."""

    path: str
    head: dict[str, str]
    raw: bytes
    at: float

    @property
    def id(self) -> str:
        return self.head["webhook-id"]

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def kind(self) -> str:
        """`task` for the whole of 0.3, or the one member of a StreamResponse."""
        body = self.body
        return "task" if body.get("kind") == "task" else str(next(iter(body)))

    @property
    def state(self) -> str:
        """The state it tells, as 0.3 spells it; '' for an artifact."""
        body = self.body
        inner = body if body.get("kind") == "task" else next(iter(body.values()))
        state = str(inner.get("status", {}).get("state", ""))
        return state.removeprefix("TASK_STATE_").lower().replace("_", "-")

    @property
    def task_id(self) -> str:
        body = self.body
        inner = body if body.get("kind") == "task" else next(iter(body.values()))
        return str(inner.get("taskId") or inner["id"])


@dataclass
class Hook:
    """Answers with the statuses given, one after the other, then with 200. Closed, it keeps everybody waiting."""

    statuses: list[int] = field(default_factory=list)
    headers: Sequence[str] = ()
    always: int = 200
    path: str = "/hook"
    told: list[Told] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _server: asyncio.Server | None = None
    _handlers: Handlers | None = None

    async def __aenter__(self) -> Self:
        self.open.set()
        self._handlers = Handlers(self._serve)
        self._server = await asyncio.start_server(self._handlers, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        assert self._handlers is not None
        self.open.set()
        self._server.close()
        await self._handlers.finished()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    @property
    def states(self) -> list[str]:
        return [told.state for told in self.told if told.state]

    async def until(self, count: int, *, seconds: float = 20.0) -> list[Told]:
        """Waits for so many POSTs."""
        await wait_until(lambda: len(self.told) >= count, seconds=seconds, what=f"POST number {count}")
        return self.told

    async def until_state(self, state: str, *, seconds: float = 20.0) -> list[Told]:
        await wait_until(lambda: state in self.states, seconds=seconds, what=f"a POST with {state}")
        return self.told

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        self.told.append(Told(first.split()[1], headers, raw, time.monotonic()))
        await self.open.wait()
        status = self.statuses.pop(0) if self.statuses else self.always
        extra = "".join(f"{line}\r\n" for line in self.headers)
        writer.write(f"HTTP/1.1 {status} X\r\n{extra}content-length: 0\r\n\r\n".encode())
        await writer.drain()


class Registrar:
    """Registers callbacks with messages and by the methods, in a speaker's wire."""

    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker
        self.old = speaker.wire == "0.3"

    def config(
        self, url: str, *, config_id: str | None = None, token: str | None = None, credentials: str | None = None
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"url": url}
        if config_id is not None:
            made["id"] = config_id
        if token is not None:
            made["token"] = token
        if credentials is not None:
            scheme: dict[str, Any] = {"schemes": ["Bearer"]} if self.old else {"scheme": "Bearer"}
            made["authentication"] = {**scheme, "credentials": credentials}
        return made

    def params(self, text: str, config: dict[str, Any], **how: Any) -> dict[str, Any]:
        params = self.speaker.send_params(text, **how)
        name = "pushNotificationConfig" if self.old else "taskPushNotificationConfig"
        params.setdefault("configuration", {})[name] = config
        return params

    async def send(self, text: str, config: dict[str, Any], **how: Any) -> Answer:
        return await self.speaker.call("send", self.params(text, config, **how))

    async def stream(self, text: str, config: dict[str, Any], **how: Any) -> list[Any]:
        """The whole stream of a message that was sent with a callback."""
        async with self.speaker._open("stream", self.params(text, config, **how), None) as reader:
            assert reader.is_stream, await reader.answer()
            return await reader.rest()

    async def create(self, task_id: str, config: dict[str, Any]) -> Answer:
        if self.speaker.wire == "rest":
            return await self._rest("POST", f"/tasks/{task_id}/pushNotificationConfigs", config)
        params = {"taskId": task_id, "pushNotificationConfig": config} if self.old else {"taskId": task_id, **config}
        return await self._call("set", "CreateTaskPushNotificationConfig", params)

    async def get(self, task_id: str, config_id: str | None) -> Answer:
        if self.speaker.wire == "rest":
            return await self._rest("GET", f"/tasks/{task_id}/pushNotificationConfigs/{config_id}")
        return await self._call("get", "GetTaskPushNotificationConfig", self._named(task_id, config_id))

    async def list(self, task_id: str) -> Answer:
        if self.speaker.wire == "rest":
            return await self._rest("GET", f"/tasks/{task_id}/pushNotificationConfigs")
        params = {"id": task_id} if self.old else {"taskId": task_id}
        return await self._call("list", "ListTaskPushNotificationConfigs", params)

    async def delete(self, task_id: str, config_id: str) -> Answer:
        if self.speaker.wire == "rest":
            return await self._rest("DELETE", f"/tasks/{task_id}/pushNotificationConfigs/{config_id}")
        return await self._call("delete", "DeleteTaskPushNotificationConfig", self._named(task_id, config_id))

    def _named(self, task_id: str, config_id: str | None) -> dict[str, Any]:
        if not self.old:
            return {"taskId": task_id, "id": config_id}
        return {"id": task_id, **({"pushNotificationConfigId": config_id} if config_id is not None else {})}

    async def _call(self, old: str, new: str, params: dict[str, Any]) -> Answer:
        method = f"tasks/pushNotificationConfig/{old}" if self.old else new
        envelope = {"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}
        headers = {} if self.old else {"A2A-Version": "1.0"}
        return self._answer(await self.speaker.http.post(self.speaker.base, json=envelope, headers=headers))

    async def _rest(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        url, headers = self.speaker.base + path, {"A2A-Version": "1.0"}
        return self._answer(await self.speaker.http.request(verb, url, json=body, headers=headers))

    def _answer(self, response: httpx.Response) -> Answer:
        return Answer(response.status_code, response.headers, response.json(), self.speaker.wire)

    def shown(self, answer: Answer) -> dict[str, Any]:
        """The config of an answer, in one form."""
        return self._flat(answer.result)

    def shown_list(self, answer: Answer) -> Sequence[dict[str, Any]]:
        return [self._flat(one) for one in (answer.result if self.old else answer.result["configs"])]

    def _flat(self, result: dict[str, Any]) -> dict[str, Any]:
        config = result["pushNotificationConfig"] if self.old else result
        auth = config.get("authentication", {})
        return {
            "task": result["taskId"],
            "id": config["id"],
            "url": config["url"],
            "token": config.get("token"),
            "credentials": auth.get("credentials"),
            "scheme": auth["schemes"][0] if "schemes" in auth else auth.get("scheme"),
        }
