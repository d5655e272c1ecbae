"""A running server as its caller sees it: A2A 1.0 over JSON-RPC, with streams that are resumed where they broke."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

# A stream shows a sign of life every few seconds; longer silence means that the connection is dead.
SILENCE_SECONDS = 15.0
CONNECT_SECONDS = 5.0
# A broken stream is taken up again so often, with growing pauses: about 12 s, enough for a server that restarts.
RESUMES = 8
PAUSE_SECONDS = 0.1

_UNSETTLED = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
_FINAL = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")

Json = dict[str, Any]


class Unreachable(Exception):
    """Nobody answers there, or not in A2A; the text says what to do."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, message: str, reason: str = "", task_id: str = "", retry: float | None = None) -> None:
        self.reason = reason
        self.task_id = task_id
        self.retry = retry
        super().__init__(message)


@dataclass(slots=True)
class Cursor:
    """Where a stream is: enough to go on with it on another connection."""

    task_id: str = ""
    last: str = ""


class Remote:
    """One server, one caller."""

    def __init__(self, url: str, *, token: str | None = None, api_key: str | None = None, verify: bool = True) -> None:
        self.url = url.rstrip("/")
        headers = {"A2A-Version": "1.0"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if api_key:
            headers["X-Api-Key"] = api_key
        self._http = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            verify=verify,
            # A proxy of the environment can't know the way to this machine.
            trust_env=urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"),
        )

    def close(self) -> None:
        self._http.close()

    def card(self) -> Json:
        try:
            answer = self._http.get(f"{self.url}/.well-known/agent-card.json")
        except httpx.HTTPError as error:
            raise Unreachable(f"Nothing answers at {self.url} ({_said(error)}).") from error
        except httpx.InvalidURL as error:
            raise Unreachable(f"{self.url} is no address: {error}.") from error
        if answer.status_code == 401:
            raise Unreachable(f"{self.url} wants to know who you are: give --token or --api-key.")
        try:
            card = answer.json()
        except ValueError:
            card = None
        if answer.status_code != 200 or not isinstance(card, dict) or "name" not in card:
            raise Unreachable(f"What answers at {self.url} has no agent card (HTTP {answer.status_code}).")
        return card

    def stream(self, message: Json, cursor: Cursor) -> Iterator[Json]:
        """Sends a message and brings what happens to it, whatever happens to the connection meanwhile."""
        yield from self._until_over(message, cursor)

    def rest(self, cursor: Cursor) -> Iterator[Json]:
        """What comes after the cursor of a stream that was left."""
        yield from self._until_over(None, cursor)

    def cancel(self, task_id: str) -> Json:
        return self._call("CancelTask", {"id": task_id})

    def _until_over(self, message: Json | None, cursor: Cursor) -> Iterator[Json]:
        tries = 0
        while True:
            seen = cursor.last
            try:
                if cursor.task_id and cursor.last:
                    yield from self._events("SubscribeToTask", {"id": cursor.task_id}, cursor)
                else:
                    yield from self._events("SendStreamingMessage", {"message": message}, cursor)
                return
            except (httpx.TransportError, _Broken) as error:
                tries = 1 if cursor.last != seen else tries + 1
                if tries > RESUMES:
                    raise Unreachable(f"The connection to {self.url} is lost ({_said(error)}).") from error
                time.sleep(PAUSE_SECONDS * 2 ** min(tries, 5))
            except Refused as refused:
                if refused.reason == "MESSAGE_IN_FLIGHT" and refused.task_id and not cursor.task_id:
                    # The first try was accepted before its connection broke.
                    cursor.task_id, cursor.last = refused.task_id, "0-0"
                elif refused.retry is None or (tries := tries + 1) > RESUMES:
                    raise
                else:
                    time.sleep(refused.retry)

    def _events(self, method: str, params: Json, cursor: Cursor) -> Iterator[Json]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": cursor.last} if cursor.last else {})}
        with self._http.stream("POST", f"{self.url}/", json=_envelope(method, params), headers=headers) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.read()
                _result(answer)
                raise Refused(f"{method} was answered without a stream.")
            settled = False
            for event_id, data in _frames(answer.iter_lines()):
                if "error" in data:
                    raise _refusal(data["error"], answer)
                [(kind, body)] = data["result"].items()
                cursor.task_id = str(body["id"] if kind == "task" else body.get("taskId", cursor.task_id))
                cursor.last = event_id or cursor.last
                yield {"kind": kind, "body": body}
                if kind == "message" or _is_over(kind, body):
                    return
                # A message that was answered before is told as the task it left, and nothing follows.
                settled = kind == "task" and body["status"]["state"] not in _UNSETTLED
            if settled:
                return
        # Ended without the event that ends it: the worker went away.
        raise _Broken("the stream ended early")

    def _call(self, method: str, params: Json) -> Json:
        try:
            answer = self._http.post(f"{self.url}/", json=_envelope(method, params))
        except httpx.HTTPError as error:
            raise Unreachable(f"The connection to {self.url} is lost ({_said(error)}).") from error
        return _result(answer)


class _Broken(Exception):
    """A stream ended before its task did."""


def user_message(text: str, context_id: str, task_id: str | None) -> Json:
    message: Json = {
        "messageId": str(uuid.uuid4()),
        "contextId": context_id,
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    return {**message, "taskId": task_id} if task_id else message


def _is_over(kind: str, body: Json) -> bool:
    if kind == "artifactUpdate":
        return False
    state = body["status"]["state"]
    return state in _FINAL or (kind == "statusUpdate" and state not in _UNSETTLED)


def _frames(lines: Iterator[str]) -> Iterator[tuple[str, Json]]:
    event_id, data = "", ""
    for line in lines:
        if line.startswith("id:"):
            event_id = line[3:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line and data:
            yield event_id, json.loads(data)
            event_id, data = "", ""


def _envelope(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}


def _result(answer: httpx.Response) -> Json:
    try:
        body = answer.json()
    except ValueError:
        raise Refused(f"HTTP {answer.status_code}, and no JSON.") from None
    if "error" in body:
        raise _refusal(body["error"], answer)
    result: Json = body.get("result") or {}
    return result


def _refusal(error: Json, answer: httpx.Response) -> Refused:
    info: Json = next((one for one in error.get("data") or [] if isinstance(one, dict) and "reason" in one), {})
    task_id = str((info.get("metadata") or {}).get("taskId", ""))
    retry = answer.headers.get("retry-after")
    again = float(retry) if retry and retry.isdigit() and answer.status_code in (429, 503) else None
    return Refused(str(error.get("message", "an error without a message")), info.get("reason", ""), task_id, again)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
