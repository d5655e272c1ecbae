"""One call at a time, for what a scenario has to prepare or to look at."""

from __future__ import annotations

from typing import Any

import httpx
import redis

from bench.load.talk import send, task_in
from bench.subjects import Subject

ANSWER_SECONDS = 60.0


class Caller:
    """Talks to one of a subject's servers."""

    def __init__(self, subject: Subject, number: int = 0) -> None:
        self._url = f"http://127.0.0.1:{subject.ports[number]}{subject.path}"
        self._http = httpx.Client(timeout=ANSWER_SECONDS, headers={"a2a-version": "1.0"}, trust_env=False)

    def task(self, asked: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(self._url, json=asked)
        return task_in(answer.status_code, answer.content)

    def begin(self, text: str) -> dict[str, Any]:
        """A message whose end is not waited for; the request that began it and its task."""
        asked = send("1.0", text)
        asked["params"]["configuration"] = {"returnImmediately": True}
        return {"request": asked, "task": self.task(asked)}

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        found: dict[str, Any] = self._http.post(self._url, json=asked).json()["result"]
        return found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.task({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def close(self) -> None:
        self._http.close()


def used_memory(url: str) -> int:
    """Of the engine, as it counts it itself: what its allocator holds is more by what was freed."""
    with redis.Redis.from_url(url) as client:
        return int(client.info("memory")["used_memory"])
