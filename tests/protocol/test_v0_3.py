"""What 0.3 clients are sent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from server.protocol.card import card_v0_3
from server.protocol.dialect import Dialect
from server.protocol.model import State, Status, StatusUpdate, TaskPage
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from tests.protocol.samples import AT, AT_MS, BARE_PUSH, CARD, CHUNK, FIRST_CHUNK, FULL, PLAIN, PUSH, QUESTION, STATUS

DIALECT: Dialect = V0_3_DIALECT
QUESTION_03 = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
PLAIN_03 = {"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "working", "timestamp": AT}}
FULL_03 = {
    "kind": "task",
    "id": "t1",
    "contextId": "c1",
    "status": {
        "state": "completed",
        "timestamp": AT,
        "message": {
            "kind": "message",
            "messageId": "m2",
            "role": "agent",
            "parts": [
                {"kind": "text", "text": "a"},
                {
                    "kind": "file",
                    "file": {"bytes": "aGk=", "name": "f.txt", "mimeType": "text/plain"},
                    "metadata": {"n": 1},
                },
                {"kind": "file", "file": {"uri": "https://x"}},
                {"kind": "data", "data": {"z": None}},
                {"kind": "data", "data": {"value": [1]}, "metadata": {"k": 1, "data_part_compat": True}},
                {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True}},
            ],
            "contextId": "c1",
            "taskId": "t1",
            "metadata": {"k": None},
            "extensions": ["urn:e"],
            "referenceTaskIds": ["t0"],
        },
    },
    "artifacts": [
        {
            "artifactId": "a1",
            "parts": [{"kind": "text", "text": "x"}],
            "name": "n",
            "description": "d",
            "metadata": {"k": 1},
            "extensions": ["urn:e"],
        },
        {"artifactId": "a2", "parts": [{"kind": "text", "text": "y"}]},
    ],
    "history": [QUESTION_03],
    "metadata": {"k": 2},
}


@pytest.mark.parametrize("operation", [Operation.SEND_MESSAGE, Operation.GET_TASK, Operation.CANCEL_TASK])
def test_a_task_is_bare_in_every_result(operation: Operation) -> None:
    assert DIALECT.encode_result(operation, PLAIN) == PLAIN_03
    assert DIALECT.encode_result(operation, FULL) == FULL_03


def test_a_direct_message_is_bare_too() -> None:
    assert DIALECT.encode_result(Operation.SEND_MESSAGE, QUESTION) == QUESTION_03


def test_rendering_leaves_the_model_untouched() -> None:
    before = repr(FULL)
    DIALECT.encode_result(Operation.GET_TASK, FULL)
    assert repr(FULL) == before


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (State.SUBMITTED, "submitted"),
        (State.WORKING, "working"),
        (State.INPUT_REQUIRED, "input-required"),
        (State.AUTH_REQUIRED, "auth-required"),
        (State.COMPLETED, "completed"),
        (State.FAILED, "failed"),
        (State.CANCELED, "canceled"),
        (State.REJECTED, "rejected"),
    ],
)
def test_every_state_has_its_word(state: State, word: str) -> None:
    encoded = DIALECT.encode_event(StatusUpdate("t1", "c1", Status(state, AT_MS)), False)
    assert encoded["status"]["state"] == word


@pytest.mark.parametrize("final", [True, False])
def test_final_is_on_every_status_update(final: bool) -> None:
    assert DIALECT.encode_event(STATUS, final) == {
        "kind": "status-update",
        "taskId": "t1",
        "contextId": "c1",
        "status": {"state": "completed", "timestamp": AT, "message": QUESTION_03},
        "final": final,
        "metadata": {"k": 1},
    }


def test_artifact_updates_say_append_and_last_chunk_also_when_false() -> None:
    update = {"kind": "artifact-update", "taskId": "t1", "contextId": "c1"}
    assert DIALECT.encode_event(FIRST_CHUNK, False) == {
        **update,
        "artifact": {"artifactId": "a1", "parts": [{"kind": "text", "text": "Hel"}]},
        "append": False,
        "lastChunk": False,
    }
    assert DIALECT.encode_event(CHUNK, False) == {
        **update,
        "artifact": {"artifactId": "a1", "parts": [{"kind": "text", "text": "lo"}]},
        "append": True,
        "lastChunk": True,
        "metadata": {"k": 1},
    }


def test_tasks_and_messages_of_a_stream_are_bare() -> None:
    assert DIALECT.encode_event(PLAIN, False) == PLAIN_03
    assert DIALECT.encode_event(QUESTION, True) == QUESTION_03


def test_push_configs_nest_below_their_task() -> None:
    full = {
        "taskId": "t1",
        "pushNotificationConfig": {
            "id": "p1",
            "url": "https://h",
            "token": "k",
            "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "x"},
        },
    }
    bare = {"taskId": "t1", "pushNotificationConfig": {"url": "https://h"}}
    assert DIALECT.encode_result(Operation.GET_PUSH_CONFIG, PUSH) == full
    assert DIALECT.encode_result(Operation.LIST_PUSH_CONFIGS, [PUSH, BARE_PUSH]) == [full, bare]
    assert DIALECT.encode_result(Operation.LIST_PUSH_CONFIGS, ()) == []
    schemes_only = replace(PUSH, config=replace(PUSH.config, credentials=None))
    assert DIALECT.encode_result(Operation.GET_PUSH_CONFIG, schemes_only)["pushNotificationConfig"][
        "authentication"
    ] == {"schemes": ["Bearer", "Basic"]}


def test_a_deletion_answers_null_and_the_card_in_its_own_shape() -> None:
    assert DIALECT.encode_result(Operation.DELETE_PUSH_CONFIG, None) is None
    assert DIALECT.encode_result(Operation.GET_EXTENDED_CARD, CARD) == card_v0_3(CARD)


def test_a_page_of_tasks_does_not_exist_in_0_3() -> None:
    with pytest.raises(TypeError, match=r"0\.3"):
        DIALECT.encode_result(Operation.LIST_TASKS, TaskPage((), "", 50, 0))


def test_empty_metadata_is_kept_and_absent_metadata_is_absent() -> None:
    encoded = DIALECT.encode_result(Operation.GET_TASK, replace(PLAIN, metadata={}))
    assert encoded["metadata"] == {}
    assert "metadata" not in DIALECT.encode_result(Operation.GET_TASK, PLAIN)


def test_nothing_of_1_0_reaches_a_0_3_client() -> None:
    written = json.dumps([DIALECT.encode_result(Operation.SEND_MESSAGE, FULL), DIALECT.encode_event(STATUS, True)])
    assert "TASK_STATE_" not in written
    assert "ROLE_" not in written
    assert "mediaType" not in written
