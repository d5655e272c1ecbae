"""Server-sent events out of the pieces of a body."""

from __future__ import annotations

import json
from typing import Any

from bench.load.talk import Wrong, said_in

Json = dict[str, Any]


class Reader:
    """The data of each event; comments, ids and names are passed over."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, piece: bytes) -> list[Json]:
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return [_result(line) for line in lines if line.startswith(b"data:")]


class Heard:
    """What one stream has said so far, and whether that was right."""

    def __init__(self) -> None:
        self.events = 0
        self.task = ""
        self.context = ""
        self.final = ""
        self.text: list[str] = []

    def take(self, result: Json) -> str | None:
        """One event; the text of a chunk."""
        self.events += 1
        if (update := result.get("artifactUpdate")) is not None:
            text = "".join(part.get("text", "") for part in update["artifact"]["parts"])
            self.text.append(text)
            return text
        body = result.get("task") or result.get("statusUpdate")
        if body is None:
            raise Wrong(f"an event of no kind: {result!r:.500}")
        self.task = self.task or body.get("id") or body["taskId"]
        self.context = self.context or body["contextId"]
        state = body["status"]["state"]
        if state in ("TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"):
            self.final = said_in(body) if state.endswith("COMPLETED") else "canceled"
        if "artifacts" in body:  # a snapshot has what was said before
            self.text[:0] = [part["text"] for artifact in body["artifacts"] for part in artifact["parts"]]
        return None


def _result(line: bytes) -> Json:
    said: Json = json.loads(line[5:])
    if "result" not in said:
        raise Wrong(f"not an event: {line[:500]!r}")
    result: Json = said["result"]
    return result
