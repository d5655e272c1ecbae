"""Stored documents: nothing is lost, nothing is kept twice, and newer releases keep their members."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

from server.protocol.documents import (
    dump_event,
    dump_message,
    dump_send,
    dump_task,
    load_event,
    load_message,
    load_send,
    load_task,
)
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Message,
    MessageJoined,
    Part,
    Role,
    SendMessage,
    State,
    Status,
    StatusUpdate,
    Task,
)
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT
from tests.protocol.samples import CHUNK, FULL, PLAIN, QUESTION, STATUS
from tests.protocol.strategies import events, messages, sends, tasks


def reload(task: Task) -> Task:
    return load_task(
        dump_task(task),
        task_id=task.id,
        context_id=task.context_id,
        state=task.status.state,
        at_ms=task.status.at_ms,
    )


@given(tasks)
def test_a_task_survives_storage(task: Task) -> None:
    assert same(reload(task), task)


@given(events)
def test_an_event_survives_storage(event: Event) -> None:
    kind, doc = dump_event(event)
    at_ms = event.status.at_ms if isinstance(event, StatusUpdate) else 0
    assert same(load_event(kind, doc, task_id=event.task_id, context_id=event.context_id, at_ms=at_ms), event)


@given(messages)
def test_a_message_survives_storage(message: Message) -> None:
    assert same(load_message(dump_message(message)), message)


@given(sends)
def test_a_send_survives_storage(send: SendMessage) -> None:
    assert same(load_send(dump_send(send)), send)


def same(loaded: object, original: object) -> bool:
    """Equal also in the types of numbers, which `==` does not see: 1 is not 1.0 to a user."""
    return repr(loaded) == repr(original)


def test_a_task_document_is_compact_and_leaves_the_stores_facts_to_the_store() -> None:
    assert dump_task(PLAIN) == '{"v":1}'
    doc = json.loads(dump_task(FULL))
    assert set(doc) == {"v", "message", "artifacts", "history", "metadata"}
    assert dump_task(Task("t", "c", Status(State.WORKING, 0), metadata={"é": [1, None]})) == (
        '{"v":1,"metadata":{"é":[1,null]}}'
    )


def test_members_of_a_newer_release_are_carried_along() -> None:
    newer = '{"v":2,"metadata":{"k":1},"shine":{"deep":[1]}}'
    task = load_task(newer, task_id="t", context_id="c", state=State.WORKING, at_ms=1)
    assert task == Task("t", "c", Status(State.WORKING, 1), metadata={"k": 1}, extra={"shine": {"deep": [1]}})
    assert json.loads(dump_task(task)) == {"v": 1, "metadata": {"k": 1}, "shine": {"deep": [1]}}


def test_the_trace_is_kept_with_the_task_and_never_shown() -> None:
    traced = replace(PLAIN, trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert reload(traced) == traced
    for dialect in (V0_3_DIALECT, V1_0_DIALECT):
        assert dialect.encode_event(traced, True) == dialect.encode_event(PLAIN, True)


def test_event_documents_by_kind() -> None:
    kind, doc = dump_event(STATUS)
    assert kind == "status"
    assert json.loads(doc) == {
        "state": "completed",
        "message": {"id": "m1", "role": "user", "parts": [{"text": "hi"}]},
        "metadata": {"k": 1},
    }
    kind, doc = dump_event(CHUNK)
    assert kind == "artifact"
    assert json.loads(doc) == {
        "artifact": {"id": "a1", "parts": [{"text": "lo"}]},
        "append": True,
        "last": True,
        "metadata": {"k": 1},
    }
    kind, doc = dump_event(MessageJoined("t1", "c1", QUESTION))
    assert kind == "message"
    assert load_message(doc) == QUESTION


def test_the_start_of_a_turn_needs_no_document() -> None:
    assert load_event("start", "", task_id="t", context_id="c", at_ms=5) == StatusUpdate(
        "t", "c", Status(State.WORKING, 5)
    )


def test_an_unknown_kind_of_event_and_an_empty_part_are_faults() -> None:
    with pytest.raises(ValueError, match="unknown kind of event: 'later'"):
        load_event("later", "{}", task_id="t", context_id="c", at_ms=5)
    with pytest.raises(ValueError, match="no content"):
        load_message('{"id":"m","role":"user","parts":[{"video":1}]}')


def test_what_no_client_could_read_is_not_stored() -> None:
    broken = Message("m", Role.AGENT, (Part("data", float("nan")),))
    with pytest.raises(ValueError, match="JSON"):
        dump_message(broken)
    with pytest.raises(ValueError, match="JSON"):
        dump_event(ArtifactUpdate("t", "c", Artifact("a", broken.parts)))
