"""How events change a task: the one fold that every reader of a log computes."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.protocol.folding import fold, fold_all
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Message,
    MessageJoined,
    Part,
    Role,
    State,
    Status,
    StatusUpdate,
    Task,
)
from tests.protocol.samples import PLAIN, QUESTION

THINKING = Message("s1", Role.AGENT, (Part("text", "thinking"),))
DONE = Message("s2", Role.AGENT, (Part("text", "done"),))


def status(state: State, message: Message | None = None, at_ms: int = 1, **metadata: int) -> StatusUpdate:
    return StatusUpdate("t1", "c1", Status(state, at_ms, message), metadata or None)


def chunk(artifact_id: str, text: str, *, append: bool = False, **metadata: int) -> ArtifactUpdate:
    return ArtifactUpdate("t1", "c1", Artifact(artifact_id, (Part("text", text),), metadata=metadata or None), append)


def texts(task: Task) -> dict[str, list[str]]:
    return {artifact.artifact_id: [part.value for part in artifact.parts] for artifact in task.artifacts}


def test_a_superseded_status_message_moves_into_the_history() -> None:
    task = fold(fold(PLAIN, status(State.WORKING, THINKING)), status(State.COMPLETED, DONE, at_ms=9))
    assert task.status == Status(State.COMPLETED, 9, DONE)
    assert task.history == (THINKING,)


def test_a_status_without_message_leaves_the_history_alone() -> None:
    assert fold(PLAIN, status(State.COMPLETED)).history == ()


def test_the_metadata_of_a_status_is_merged_into_the_task() -> None:
    task = fold(fold(PLAIN, status(State.WORKING, a=1, b=1)), status(State.COMPLETED, b=2))
    assert task.metadata == {"a": 1, "b": 2}
    assert fold(task, status(State.COMPLETED)).metadata == {"a": 1, "b": 2}


def test_a_joining_message_comes_after_the_question_it_answers() -> None:
    asked = fold(PLAIN, status(State.INPUT_REQUIRED, THINKING))
    task = fold(asked, MessageJoined("t1", "c1", QUESTION))
    assert task.history == (THINKING, QUESTION)
    assert task.status == Status(State.INPUT_REQUIRED, 1, None)
    assert fold(PLAIN, MessageJoined("t1", "c1", QUESTION)).history == (QUESTION,)


def test_appended_chunks_extend_their_artifact_and_merge_its_metadata() -> None:
    task = fold(fold(PLAIN, chunk("a", "Hel", x=1)), chunk("a", "lo", append=True, y=2))
    assert texts(task) == {"a": ["Hel", "lo"]}
    assert task.artifacts[0].metadata == {"x": 1, "y": 2}


def test_an_appended_chunk_changes_nothing_else_of_its_artifact() -> None:
    first = replace(chunk("a", "Hel"), artifact=Artifact("a", (Part("text", "Hel"),), "name", "description"))
    later = replace(chunk("a", "lo", append=True), artifact=Artifact("a", (Part("text", "lo"),), "other", "other"))
    (artifact,) = fold(fold(PLAIN, first), later).artifacts
    assert (artifact.name, artifact.description) == ("name", "description")


def test_an_artifact_sent_again_is_replaced_in_its_place() -> None:
    task = fold(fold(fold(PLAIN, chunk("a", "1")), chunk("b", "2")), chunk("a", "3"))
    assert list(texts(task).items()) == [("a", ["3"]), ("b", ["2"])]


def test_a_chunk_for_an_artifact_nobody_has_seen_begins_it() -> None:
    assert texts(fold(PLAIN, chunk("a", "x", append=True))) == {"a": ["x"]}


@given(
    st.lists(
        st.builds(chunk, st.sampled_from("ab"), st.sampled_from("xyz"), append=st.booleans(), k=st.integers(0, 3))
        | st.builds(chunk, st.sampled_from("ab"), st.just("-"), append=st.just(True))
        | st.just(status(State.WORKING, THINKING))
    )
)
def test_folding_many_is_folding_one_after_the_other(events: list[Event]) -> None:
    assert fold_all(PLAIN, events) == reduce(fold, events, PLAIN)


def test_folding_leaves_the_earlier_task_as_it_was() -> None:
    before = repr(PLAIN)
    fold(fold(PLAIN, chunk("a", "1")), status(State.COMPLETED, DONE, a=1))
    assert repr(PLAIN) == before


@pytest.mark.parametrize("state", State)
def test_a_state_is_active_interrupted_or_terminal(state: State) -> None:
    active = state in (State.SUBMITTED, State.WORKING)
    assert [active, state.interrupted, state.terminal].count(True) == 1


def test_the_text_of_a_message_is_its_text_parts() -> None:
    parts = (Part("text", "a"), Part("data", {"text": "no"}), Part("text", "b"))
    assert Message("m", Role.USER, parts).text == "a\nb"


def _filled(kind: Any) -> dict[str, Any]:
    """A value of its own for each member, also for one that is added to the class later."""
    return {field.name: f"the {field.name}" for field in fields(kind)}


def test_the_quick_copies_carry_every_member_along() -> None:
    task, status, message = _filled(Task), _filled(Status), _filled(Message)
    new: Any = "new"
    assert Task(**task).having(new) == Task(**{**task, "status": new})
    assert Status(**status).at(new) == Status(**{**status, "at_ms": new})
    within = {**message, "context_id": "c", "task_id": "t"}
    assert Message(**message).within("c", "t") == Message(**within)
    update = _filled(StatusUpdate)
    stamped = {**update, "status": Status(**{**status, "at_ms": new})}
    assert StatusUpdate(**{**update, "status": Status(**status)}).at(new) == StatusUpdate(**stamped)


def test_folding_a_status_carries_every_other_member_along() -> None:
    task = {**_filled(Task), "status": Status(State.WORKING, 0), "metadata": {"a": 1}}
    status = Status(State.COMPLETED, 1)
    assert fold(Task(**task), StatusUpdate("t", "c", status)) == Task(**{**task, "status": status})
