"""The task state of a dialogue: the contract's order of precedence, as a table and as properties."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.dialogue.assistant import Assistant
from server.dialogue.mapper import TaskState, TaskStateMapper
from server.dialogue.state import DialogueState, Frame, TurnFacts
from tests.dialogue.builders import EXAMPLES

BANK = Assistant.load(EXAMPLES / "bank")
FLOW = "transfer_money"
WORK, ASK, DONE = TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.COMPLETED
FAIL, CANCEL, REJECT = TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED


@dataclass
class Case:
    says: str
    repaired: TaskState  # include_conversation_repair: true
    plain: TaskState  # false
    stack: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    completed: bool = False
    after_cancel: bool = False
    closed: bool = False
    waiting: bool = True
    cancelled: bool = False


CASES = [
    Case("the orchestrator cancelled", CANCEL, CANCEL, stack=(FLOW,), completed=True, cancelled=True),
    Case("out of scope", REJECT, REJECT, ran=("pattern_cannot_handle",)),
    Case("not understood inside a flow", ASK, ASK, stack=(FLOW,), ran=("pattern_cannot_handle",)),
    Case("not understood, yet a seed completed a flow", DONE, DONE, ran=("pattern_cannot_handle",), completed=True),
    Case("rejected comes before failed", REJECT, REJECT, ran=("pattern_cannot_handle", "pattern_internal_error")),
    Case("an error", FAIL, FAIL, ran=("pattern_internal_error",)),
    Case("an error after a flow completed", FAIL, FAIL, ran=("pattern_internal_error",), completed=True),
    Case("a hint about the input inside a flow", ASK, ASK, stack=(FLOW,), ran=("pattern_internal_error",)),
    Case("the user cancelled", CANCEL, CANCEL, stack=("pattern_completed",), ran=("pattern_cancel_flow",)),
    Case(
        "cancelled, then another flow completed",
        DONE,
        DONE,
        ("pattern_completed",),
        ("pattern_cancel_flow",),
        True,
        True,
    ),
    Case("cancelled, another flow asks", ASK, ASK, stack=(FLOW,), ran=("pattern_cancel_flow",), after_cancel=True),
    Case("a flow completed", DONE, DONE, stack=("pattern_completed",), completed=True),
    Case("a flow completed and says nothing more", DONE, DONE, completed=True),
    Case("a digression completed", ASK, ASK, stack=(FLOW, "pattern_continue_interrupted"), completed=True),
    Case("anything else is asked again", ASK, DONE, stack=("pattern_completed",)),
    Case("nothing else", DONE, DONE, closed=True),
    Case("small talk", ASK, DONE, ran=("pattern_chitchat",)),
    Case("a clarification", ASK, DONE, ran=("pattern_clarification",)),
    Case("a question", ASK, ASK, stack=(FLOW,)),
    Case("an interrupted flow is offered", ASK, ASK, stack=(FLOW, "pattern_continue_interrupted")),
    Case("something runs", WORK, WORK, stack=(FLOW,), waiting=False),
]


def dialogue(case: Case) -> DialogueState:
    stack = [
        Frame(number, flow, "END", "pattern" if flow.startswith("pattern_") else "regular", started=True)
        for number, flow in enumerate(case.stack)
    ]
    facts = TurnFacts(
        waiting=case.waiting,
        ran={pattern: {"reason": "r", "error_type": "e", "info": {"a": 1}} for pattern in case.ran},
        completed=[FLOW] if case.completed else [],
        persisted={"transfer_status": "executed"} if case.completed else {},
        started_after_cancel=case.after_cancel,
        closed=case.closed,
        cancelled=FLOW,
    )
    return DialogueState({"recipient": "Bob", "continue_conversation": True}, stack=stack, turn=facts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_the_state_of_the_task(case: Case) -> None:
    state = dialogue(case)

    assert TaskStateMapper(BANK.project.domain, True).state(state, cancelled=case.cancelled) is case.repaired
    assert TaskStateMapper(BANK.project.domain, False).state(state, cancelled=case.cancelled) is case.plain


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_the_data_that_goes_with_the_state(case: Case) -> None:
    mapper = TaskStateMapper(BANK.project.domain, True)
    state = dialogue(case)

    data = mapper.data(state, case.repaired)

    assert data["state"] == case.repaired.value
    assert data["active_flow"] == (FLOW if FLOW in case.stack else None)
    assert data["slots"] == {"recipient": "Bob"}, "built-in slots stay inside"
    extra = data.keys() - {"state", "active_flow", "slots"}
    assert extra == {
        DONE: {"persisted_slots"},
        REJECT: {"reason"},
        FAIL: {"error_type", "error_info"},
        CANCEL: {"canceled_flow"},
    }.get(case.repaired, set())


PATTERNS = [
    "pattern_completed",
    "pattern_cannot_handle",
    "pattern_internal_error",
    "pattern_cancel_flow",
    "pattern_continue_interrupted",
]


@given(
    st.lists(st.sampled_from([FLOW, *PATTERNS]), max_size=3),
    st.sets(st.sampled_from(PATTERNS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_without_repair_nothing_waits_for_input_unless_a_flow_does(
    stack: list[str], ran: set[str], completed: bool, after_cancel: bool, closed: bool
) -> None:
    case = Case("", WORK, WORK, tuple(stack), tuple(ran), completed, after_cancel, closed)
    state = dialogue(case)
    with_repair = TaskStateMapper(BANK.project.domain, True).state(state)
    without = TaskStateMapper(BANK.project.domain, False).state(state)

    assert with_repair is not WORK, "the bot waits, so nothing is still being done"
    if FLOW not in stack:
        assert without is not ASK
    assert without is with_repair or (with_repair, without) == (ASK, DONE)
