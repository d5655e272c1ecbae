"""Between stored records and the model: tasks from views, events from log entries, and what a turn was asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from server.protocol import documents
from server.protocol.folding import fold
from server.protocol.model import Event, JsonObject, SendMessage, State, Status, Task
from stores.lean import lean
from stores.records import Entry, Phase, TaskView

PHASE: dict[State, Phase] = {
    State.SUBMITTED: "open",
    State.WORKING: "open",
    State.INPUT_REQUIRED: "waiting",
    State.AUTH_REQUIRED: "waiting",
    State.COMPLETED: "closed",
    State.FAILED: "closed",
    State.CANCELED: "closed",
    State.REJECTED: "closed",
}


def event_of(view: TaskView, entry: Entry) -> Event:
    """The event in a log entry of this task."""
    return documents.load_event(
        entry.kind, entry.doc, task_id=view.task_id, context_id=view.context_id, at_ms=entry.at_ms
    )


def task_of(view: TaskView) -> Task:
    """The task as it is now: its document with the entries after it folded in."""
    task = documents.load_task(
        view.doc, task_id=view.task_id, context_id=view.context_id, state=State(view.state), at_ms=view.at_ms
    )
    for entry in view.entries:
        task = fold(task, event_of(view, entry))
    return task


@lean
@dataclass(frozen=True, slots=True)
class Asked:
    """What a turn is for: a message, or the cancel of an idle task."""

    what: Literal["send", "cancel"]
    send: SendMessage | None = None
    metadata: JsonObject | None = None
    trace: str = ""
    """The traceparent of the request that asked, for whoever runs it."""


@lean
@dataclass(frozen=True, slots=True)
class Opening:
    """What a new task's first turn begins with. Who has just admitted it need not read it back from the ticket."""

    task: Task
    asked: Asked

    @property
    def is_plain(self) -> bool:
        """Whether agent and task may share it: an agent could change what is mutable, and with it the stored task."""
        send = self.asked.send
        if send is None or send.metadata is not None or send.message.metadata is not None:
            return False
        return all(part.kind != "data" and part.metadata is None for part in send.message.parts)

    def at(self, at_ms: int) -> Opening:
        """As the store began it."""
        return Opening(self.task.having(Status(State.WORKING, at_ms)), self.asked)


def dump_asked(asked: Asked) -> str:
    trace = f"@{asked.trace}" if asked.trace else ""
    if asked.send is not None:
        return f"send{trace} {documents.dump_send(asked.send)}"
    return f"cancel{trace} {json.dumps(asked.metadata)}"


def trace_of(text: str) -> str:
    """The traceparent kept in a stored `Asked`, without reading the rest."""
    return text[: text.find(" ")].partition("@")[2]


def load_asked(text: str) -> Asked:
    head, _, doc = text.partition(" ")
    what, _, trace = head.partition("@")
    if what == "send":
        send = documents.load_send(doc)
        return Asked("send", send, send.metadata, trace)
    return Asked("cancel", None, json.loads(doc or "null"), trace)
