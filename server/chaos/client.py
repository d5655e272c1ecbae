"""The orchestrators' side of the wire: JSON-RPC 1.0, over any worker, as a client behaves that follows the advice."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

# A frozen worker holds its connections: after so long a client asks another one.
READ_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a result, or an error with its HTTP status and code."""

    status: int
    result: dict[str, Any] | None
    code: int = 0
    reason: str = ""

    @property
    def task(self) -> dict[str, Any] | None:
        if self.result is None:
            return None
        return self.result.get("task", self.result if "status" in self.result else None)


class Wire:
    """Sends to workers by turns."""

    def __init__(self, http: httpx.AsyncClient, urls: list[str], rng: random.Random) -> None:
        self._http = http
        self._urls = urls
        self._rng = rng

    async def call(self, method: str, params: dict[str, Any]) -> Answer | None:
        """One try on some worker; None when no answer came."""
        try:
            response = await self._http.send(self._request(method, params, {}))
            return _answer(response.status_code, response.json())
        except (httpx.TransportError, json.JSONDecodeError):
            return None

    async def events(
        self, method: str, params: dict[str, Any], last: str | None
    ) -> AsyncIterator[tuple[str, dict[str, Any]] | Answer]:
        """(id, result) of a stream until it breaks or ends; one Answer where it was refused."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        try:
            async with self._http.stream(**self._parts(method, params, headers)) as response:
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    yield _answer(response.status_code, json.loads(await response.aread()))
                    return
                event_id = ""
                async for line in response.aiter_lines():
                    if line.startswith("id: "):
                        event_id = line[4:]
                    elif line.startswith("data: "):
                        body = json.loads(line[6:])
                        if "error" in body:
                            yield _answer(200, body)
                            return
                        yield event_id, body["result"]
        except (httpx.TransportError, json.JSONDecodeError):
            return

    def _parts(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = self._rng.choice(self._urls)
        return {"method": "POST", "url": url, "json": envelope, "headers": {**headers, "A2A-Version": "1.0"}}

    def _request(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx.Request:
        return self._http.build_request(**self._parts(method, params, headers))


def _answer(status: int, body: dict[str, Any]) -> Answer:
    if "error" in body:
        error = body["error"]
        reasons = [entry["reason"] for entry in error.get("data") or [] if "reason" in entry]
        return Answer(status, None, error["code"], reasons[0] if reasons else "")
    return Answer(status, body["result"])


def message(text: str, message_id: str, context: str, task: str | None = None) -> dict[str, Any]:
    made = {"messageId": message_id, "contextId": context, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": {**made, "taskId": task} if task else made}


def new_http() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    timeout = httpx.Timeout(READ_SECONDS)
    return httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False, verify=False)


async def pause(rng: random.Random) -> None:
    """Between two tries of the same thing."""
    await asyncio.sleep(rng.uniform(0.05, 0.2))
