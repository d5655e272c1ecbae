"""What 1.0 clients are sent, in either binding."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from server.protocol.card import card_v1_0
from server.protocol.dialect import Dialect
from server.protocol.model import State, Status, StatusUpdate, TaskPage
from server.protocol.operations import Operation
from server.protocol.v1_0 import V1_0_DIALECT
from tests.protocol.samples import AT, AT_MS, BARE_PUSH, CARD, CHUNK, FIRST_CHUNK, FULL, PLAIN, PUSH, QUESTION, STATUS

DIALECT: Dialect = V1_0_DIALECT
QUESTION_10 = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
PLAIN_10 = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING", "timestamp": AT}}
FULL_10 = {
    "id": "t1",
    "contextId": "c1",
    "status": {
        "state": "TASK_STATE_COMPLETED",
        "timestamp": AT,
        "message": {
            "messageId": "m2",
            "role": "ROLE_AGENT",
            "parts": [
                {"text": "a", "filename": "dropped in 0.3", "mediaType": "text/html"},
                {"raw": "aGk=", "filename": "f.txt", "mediaType": "text/plain", "metadata": {"n": 1}},
                {"url": "https://x"},
                {"data": {"z": None}},
                {"data": [1], "metadata": {"k": 1}},
                {"data": None},
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
            "parts": [{"text": "x"}],
            "name": "n",
            "description": "d",
            "metadata": {"k": 1},
            "extensions": ["urn:e"],
        },
        {"artifactId": "a2", "parts": [{"text": "y"}]},
    ],
    "history": [QUESTION_10],
    "metadata": {"k": 2},
}


def test_a_task_is_wrapped_as_the_result_of_a_send_only() -> None:
    assert DIALECT.encode_result(Operation.SEND_MESSAGE, PLAIN) == {"task": PLAIN_10}
    assert DIALECT.encode_result(Operation.GET_TASK, PLAIN) == PLAIN_10
    assert DIALECT.encode_result(Operation.CANCEL_TASK, FULL) == FULL_10
    assert DIALECT.encode_result(Operation.SEND_MESSAGE, QUESTION) == {"message": QUESTION_10}


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_name(state: State) -> None:
    encoded = DIALECT.encode_event(StatusUpdate("t1", "c1", Status(state, AT_MS)), False)
    assert encoded["statusUpdate"]["status"]["state"] == f"TASK_STATE_{state.value.upper()}"


@pytest.mark.parametrize("final", [True, False])
def test_events_are_wrapped_by_name_without_kind_or_final(final: bool) -> None:
    assert DIALECT.encode_event(PLAIN, final) == {"task": PLAIN_10}
    assert DIALECT.encode_event(QUESTION, final) == {"message": QUESTION_10}
    assert DIALECT.encode_event(STATUS, final) == {
        "statusUpdate": {
            "taskId": "t1",
            "contextId": "c1",
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": AT, "message": QUESTION_10},
            "metadata": {"k": 1},
        }
    }


def test_artifact_updates_omit_what_is_false() -> None:
    assert DIALECT.encode_event(FIRST_CHUNK, False) == {
        "artifactUpdate": {
            "taskId": "t1",
            "contextId": "c1",
            "artifact": {"artifactId": "a1", "parts": [{"text": "Hel"}]},
        }
    }
    assert DIALECT.encode_event(CHUNK, False) == {
        "artifactUpdate": {
            "taskId": "t1",
            "contextId": "c1",
            "artifact": {"artifactId": "a1", "parts": [{"text": "lo"}]},
            "append": True,
            "lastChunk": True,
            "metadata": {"k": 1},
        }
    }


def test_an_empty_page_has_all_four_members() -> None:
    assert DIALECT.encode_result(Operation.LIST_TASKS, TaskPage((), "", 50, 0)) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }


def test_a_page_has_artifacts_on_every_task_or_on_none() -> None:
    page = TaskPage((FULL, PLAIN), "next", 2, 9)
    without = DIALECT.encode_result(Operation.LIST_TASKS, page)
    assert ["artifacts" in task for task in without["tasks"]] == [False, False]
    assert without["nextPageToken"] == "next"
    included = DIALECT.encode_result(Operation.LIST_TASKS, replace(page, include_artifacts=True))
    assert [task["artifacts"] for task in included["tasks"]] == [FULL_10["artifacts"], []]


def test_push_configs_are_flat_with_their_first_scheme() -> None:
    full = {
        "id": "p1",
        "taskId": "t1",
        "url": "https://h",
        "token": "k",
        "authentication": {"scheme": "Bearer", "credentials": "x"},
    }
    bare = {"taskId": "t1", "url": "https://h"}
    assert DIALECT.encode_result(Operation.CREATE_PUSH_CONFIG, PUSH) == full
    assert DIALECT.encode_result(Operation.LIST_PUSH_CONFIGS, [PUSH, BARE_PUSH]) == {"configs": [full, bare]}
    assert DIALECT.encode_result(Operation.LIST_PUSH_CONFIGS, []) == {"configs": []}
    scheme_only = replace(PUSH, config=replace(PUSH.config, credentials=None))
    assert DIALECT.encode_result(Operation.GET_PUSH_CONFIG, scheme_only)["authentication"] == {"scheme": "Bearer"}


def test_a_deletion_answers_null_and_the_card_in_its_own_shape() -> None:
    assert DIALECT.encode_result(Operation.DELETE_PUSH_CONFIG, None) is None
    assert DIALECT.encode_result(Operation.GET_EXTENDED_CARD, CARD) == card_v1_0(CARD)


def test_empty_maps_are_omitted() -> None:
    assert DIALECT.encode_result(Operation.GET_TASK, replace(PLAIN, metadata={})) == PLAIN_10


def test_nothing_of_0_3_reaches_a_1_0_client() -> None:
    written = json.dumps([DIALECT.encode_result(Operation.SEND_MESSAGE, FULL), DIALECT.encode_event(STATUS, True)])
    for word in ('"kind"', '"final"', '"file"', "mimeType", "data_part_compat"):
        assert word not in written
