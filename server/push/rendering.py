"""What a callback is sent: which events, in which form, under which headers.

A receiver can read only the dialect its config was registered in:
0.3   the whole Task at each change of its status
1.0   one StreamResponse for each event, pieces of artifacts included
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from server.protocol.folding import fold
from server.protocol.model import ArtifactUpdate, Event, MessageJoined, State, Status, StatusUpdate, Task
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT
from server.push.document import Registered
from server.turns import cursor as cursors
from server.turns.cursor import Cursor
from server.turns.record import event_of, task_of
from stores.records import TaskView

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def rests(item: Event | Task) -> bool:
    """Whether the task does nothing more after this: it has ended, or it waits for its caller."""
    if isinstance(item, StatusUpdate | Task):
        return item.status.state.terminal or item.status.state.interrupted
    return False


def wanted(registered: Registered, item: Event | Task) -> bool:
    """Whether the callback is told of this."""
    if isinstance(item, MessageJoined):
        return False
    if isinstance(item, ArtifactUpdate):
        return registered.every and registered.config.dialect != "0.3"
    return registered.every or rests(item)


def begun(view: TaskView) -> Task:
    """The task of a new message before anything happened to it."""
    task = task_of(replace(view, entries=()))
    at_ms = view.entries[0].at_ms if view.entries else view.at_ms
    return Task(task.id, task.context_id, Status(State.SUBMITTED, at_ms), history=task.history[:1])


@dataclass(slots=True)
class Picture:
    """The task as it was at each event, for receivers that want it whole.

    It is exact where the stored document does not reach beyond where it begins. Elsewhere (a delivery that was taken up
    late) an event before the document is shown with its own status on the document's content.
    """

    task: Task
    at: Cursor

    @classmethod
    def of(cls, view: TaskView, start: Cursor) -> Picture:
        if cursors.of(view.cursor) > start:
            return cls(task_of(view), cursors.of(view.last))
        task = task_of(replace(view, entries=()))
        for entry in view.entries:
            if cursors.of(entry.id) <= start:
                task = fold(task, event_of(view, entry))
        return cls(task, start)

    def after(self, event: Event, cursor: Cursor) -> Task:
        """The task right after the event."""
        if cursor > self.at:
            self.task, self.at = fold(self.task, event), cursor
        elif isinstance(event, StatusUpdate):
            return replace(self.task, status=event.status)
        return self.task


def body_of(registered: Registered, item: Event | Task) -> bytes:
    """The body of one POST; 0.3 callbacks are given tasks only."""
    assert not isinstance(item, MessageJoined)
    dialect = V0_3_DIALECT if registered.config.dialect == "0.3" else V1_0_DIALECT
    return _encode(dialect.encode_event(item, rests(item))).encode()


def headers_of(registered: Registered) -> dict[str, str]:
    """The headers that the config asks for."""
    config = registered.config
    headers = {"Content-Type": "application/json" if config.dialect == "0.3" else "application/a2a+json"}
    if config.token:
        headers["X-A2A-Notification-Token"] = config.token
    if config.auth_schemes and config.credentials:
        headers["Authorization"] = f"{config.auth_schemes[0]} {config.credentials}"
    return headers
