"""What a callback is told: which events, and the whole task as it was at each of them."""

from __future__ import annotations

import json

import pytest

from server.protocol import documents
from server.protocol.folding import fold
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Message,
    MessageJoined,
    Part,
    PushConfig,
    Role,
    State,
    Status,
    StatusUpdate,
    Task,
)
from server.push.document import Registered, config_name, dump_config, load_config
from server.push.rendering import Picture, begun, headers_of, rests, wanted
from server.push.secrets import SecretBox
from stores.records import Entry, TaskView

HELLO = Message("m1", Role.USER, (Part("text", "hello"),), "c", "t")
BEFORE = Task("t", "c", Status(State.SUBMITTED, 0), history=(HELLO,))
EVENTS: list[tuple[str, Event]] = [
    ("1-1", StatusUpdate("t", "c", Status(State.WORKING, 1))),
    ("1-2", ArtifactUpdate("t", "c", Artifact("a", (Part("text", "one "),)))),
    ("1-3", StatusUpdate("t", "c", Status(State.WORKING, 3))),
    ("1-4", ArtifactUpdate("t", "c", Artifact("a", (Part("text", "two"),)), append=True)),
    ("1-5", StatusUpdate("t", "c", Status(State.COMPLETED, 5))),
]


def view(cursor: str) -> TaskView:
    """The finished task, its document covering everything up to the cursor."""
    task, entries = BEFORE, []
    for number, (entry_id, event) in enumerate(EVENTS):
        if entry_id <= cursor:
            task = fold(task, event)
        else:
            entries.append(Entry(entry_id, *_dumped(event, number + 1)))
    return TaskView("t", "c", "completed", "closed", 5, documents.dump_task(task), cursor, "1-5", "0-0", tuple(entries))


def _dumped(event: Event, at: int) -> tuple[str, int, str]:
    kind, doc = documents.dump_event(event)
    return kind, at, doc


def texts(task: Task) -> list[str]:
    return [part.value for artifact in task.artifacts for part in artifact.parts]


def walk(picture: Picture, after: str = "0-0") -> list[tuple[State, list[str]]]:
    seen = []
    for entry_id, event in EVENTS:
        if entry_id > after:
            fence, seq = entry_id.split("-")
            task = picture.after(event, (int(fence), int(seq)))
            if isinstance(event, StatusUpdate):
                seen.append((task.status.state, texts(task)))
    return seen


def test_a_picture_that_begins_before_the_document_is_exact() -> None:
    exact = [(State.WORKING, []), (State.WORKING, ["one "]), (State.COMPLETED, ["one ", "two"])]
    assert walk(Picture.of(view("0-0"), (0, 0))) == exact
    assert walk(Picture.of(view("1-2"), (1, 2)), "1-2") == exact[1:]
    assert walk(Picture.of(view("0-0"), (1, 2)), "1-2") == exact[1:]


def test_a_picture_taken_late_shows_each_state_on_what_is_known() -> None:
    whole = ["one ", "two"]
    late = [(State.WORKING, whole), (State.WORKING, whole), (State.COMPLETED, whole)]
    assert walk(Picture.of(view("1-5"), (0, 0))) == late


def test_a_task_begins_as_submitted_with_its_message_alone() -> None:
    for cursor in ("0-0", "1-5"):
        task = begun(view(cursor))
        assert (task.status.state, task.artifacts, task.history) == (State.SUBMITTED, (), (HELLO,))


@pytest.mark.parametrize("dialect", ["0.3", "1.0"])
def test_who_is_told_what(dialect: str) -> None:
    config = PushConfig("c", "https://h.example/", dialect=dialect)
    every, ends = Registered("c", config, True), Registered("c", config, False)
    joined = MessageJoined("t", "c", HELLO)
    artifact = EVENTS[1][1]
    for state in State:
        update = StatusUpdate("t", "c", Status(state, 0))
        assert wanted(every, update)
        assert wanted(ends, update) == rests(update) == (state not in (State.SUBMITTED, State.WORKING))
    assert wanted(every, artifact) == (dialect == "1.0")
    assert not wanted(ends, artifact)
    assert not wanted(every, joined)


@pytest.mark.parametrize(
    ("schemes", "credentials", "header"),
    [
        (("Bearer",), "x", "Bearer x"),
        (("Basic", "Bearer"), "x", "Basic x"),
        (("Bearer",), None, None),
        ((), "x", None),
    ],
)
def test_authorization_is_as_registered(schemes: tuple[str, ...], credentials: str | None, header: str | None) -> None:
    config = PushConfig("c", "https://h.example/", None, schemes, credentials)
    headers = headers_of(Registered("c", config, True))
    assert headers.get("Authorization") == header
    assert "X-A2A-Notification-Token" not in headers


def test_a_stored_config_reads_back_whole() -> None:
    config = PushConfig("c/ü", "https://h.example/p?k=1", "tok", ("Basic",), "cred", "0.3")
    doc = dump_config(SecretBox(), "t", Registered("c/ü", config, False))
    assert load_config(SecretBox(), "t", doc) == Registered("c/ü", config, False)
    assert json.loads(doc)["id"] == "c/ü"
    assert ":" not in config_name("c:1:2")
