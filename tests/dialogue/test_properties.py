"""Whatever is said in whatever order, the stack stays valid and the stored form loses nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from server.dialogue.assistant import Assistant
from server.dialogue.commands import (
    CancelFlow,
    CannotHandle,
    ChitChat,
    Clarify,
    Command,
    Failure,
    HumanHandoff,
    KnowledgeAnswer,
    RepeatBotMessages,
    Restart,
    SessionEnd,
    SessionStart,
    SetSlot,
    SkipQuestion,
    Source,
    StartFlow,
    TriggerIntent,
)
from server.dialogue.engine import RunAction
from server.dialogue.flows import END
from server.dialogue.mapper import TaskState, TaskStateMapper
from server.dialogue.outcomes import ActionError, ActionResult
from server.dialogue.seeding import fit
from server.dialogue.stack import active_root, chain_of
from server.dialogue.state import DialogueState, resolves
from tests.dialogue.builders import EXAMPLES, Talk

ASSISTANTS = [Assistant.load(EXAMPLES / "bank"), Assistant.load(EXAMPLES / "clinic")]
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [True, False, None, 20, 5000, -1, "Bob", "P-1234", "friday", "morning", "cardiology", "yes", []]
)


def commands_of(assistant: Assistant) -> st.SearchStrategy[Command]:
    flows = st.sampled_from([*assistant.project.flows, "nonsense"])
    slots = st.sampled_from([*assistant.project.domain.slots, "nonsense"])
    users = st.builds(SetSlot, slots, VALUES, st.sampled_from([Source.USER, Source.BUTTON]))
    return st.one_of(
        st.builds(StartFlow, flows, st.booleans()),
        users,
        users,
        st.builds(Clarify, st.lists(flows, max_size=3).map(tuple)),
        st.builds(CannotHandle, st.sampled_from([None, "cannot_handle_not_supported"])),
        st.builds(TriggerIntent, st.sampled_from(["check_balance", "opening_hours", "nonsense"])),
        st.builds(Failure, st.just("x"), st.just({}), st.booleans()),
        st.sampled_from(
            [
                CancelFlow(),
                ChitChat(),
                HumanHandoff(),
                KnowledgeAnswer(),
                RepeatBotMessages(),
                SkipQuestion(),
                Restart(),
                SessionStart(),
                SessionEnd(),
            ]
        ),
    )


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Assistant, list[tuple[list[Command], dict[str, Any], bool]]]:
    assistant = draw(st.sampled_from(ASSISTANTS))
    slots = st.sampled_from(list(assistant.project.domain.slots))
    turns = st.tuples(
        st.lists(commands_of(assistant), max_size=4), st.dictionaries(slots, VALUES, max_size=2), st.booleans()
    )
    return assistant, draw(st.lists(turns, min_size=1, max_size=6))


def check_stack(assistant: Assistant, state: DialogueState) -> None:
    flows = assistant.project.flows
    assert resolves(state.stack, flows)
    assert len({frame.id for frame in state.stack}) == len(state.stack)
    users = [frame for frame in state.stack if frame.is_user]
    assert len({frame.flow for frame in users if frame.kind != "call"}) == len(
        [frame for frame in users if frame.kind != "call"]
    ), "no flow runs twice"
    for below, above in pairwise(users):
        if above.kind == "call":
            assert flows[below.flow].steps[below.step].target == above.flow
    if users:
        assert users[0].kind != "call"
        root = active_root(state.stack)
        assert root is not None
        assert chain_of(state.stack, root)[0] is root
    if state.stack and state.turn.waiting:
        assert state.stack[-1].step != END
        assert state.stack[-1].phase == "asked", "the bot only waits for an answer"


def act(name: str, fails: bool) -> ActionResult | ActionError:
    if fails:
        return ActionError("action_failed", {"action": name})
    slots = {
        "action_check_funds": "funds_ok",
        "action_find_opening": "opening_found",
        "action_cancel_booking": "cancel_ok",
    }
    events = [{"event": "slot", "name": slots[name], "value": True}] if name in slots else []
    return ActionResult(events)


def walk(
    assistant: Assistant, turns: list[tuple[list[Command], dict[str, Any], bool]], *, save: bool
) -> list[tuple[str, str, Any]]:
    """Every turn's outcome; with `save` the state goes through its stored form between any two steps."""
    engine, codec = assistant._engine, assistant._codec
    mapper = TaskStateMapper(assistant.project.domain)
    state = codec.new()
    outcomes: list[tuple[str, str, Any]] = []

    def through_storage(state: DialogueState) -> DialogueState:
        return codec.load(codec.dump(state, with_turn=True)) if save else state

    for commands, seeds, fails in turns:
        fitting = fit(seeds, assistant.project.domain, None)
        given_seeds = [SetSlot(name, value, Source.ORCHESTRATOR) for name, value in fitting.items()]
        state = through_storage(state)
        engine.begin(state, [*commands, *given_seeds], text="words" if commands else None)
        state = through_storage(state)
        while isinstance(effect := engine.step(state), RunAction):
            state = through_storage(state)
            engine.resume(state, act(effect.name, fails))
            state = through_storage(state)
        check_stack(assistant, state)
        task_state = mapper.state(state)
        assert task_state is not TaskState.WORKING
        data = mapper.data(state, task_state)
        json.dumps(data, allow_nan=False)
        state.said = state.turn.messages or state.said
        outcomes.append((codec.dump(state, with_turn=True), task_state, data))
    return outcomes


@settings(max_examples=150, deadline=None)
@given(conversations())
def test_any_commands_leave_a_valid_stack_and_saving_between_steps_changes_nothing(
    conversation: tuple[Assistant, list[tuple[list[Command], dict[str, Any], bool]]],
) -> None:
    assistant, turns = conversation

    kept = walk(assistant, turns, save=False)
    stored = walk(assistant, turns, save=True)

    assert kept == stored


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ASSISTANTS),
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "send money to Bob", "50", "yes", "no", "stop", "how much do I have?", "sorry, I meant James",
                    "book an appointment", "P-1234", "cardiology", "friday", "morning", "appointment", "cancel it",
                    "hello", "repeat that", "skip", "blue bananas", "/restart", "/SetSlots(amount=5)", "", "/", "?!",
                ]
            ),
            st.text(max_size=40),
        ),
        min_size=1,
        max_size=8,
    ),
)  # fmt: skip
async def test_any_words_get_an_answer(assistant: Assistant, texts: list[str]) -> None:
    talk = Talk(assistant)
    for text in texts:
        result = await talk.say(text)
        assert result.task_state is not TaskState.WORKING
        assert assistant.resolves(talk.state)
        json.dumps(dict(result.data), allow_nan=False)
    assert assistant.cancel(talk.state).task_state is TaskState.CANCELED


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from(["slots", "skill", "other"]),
)
async def test_any_metadata_and_data_get_an_answer(content: Any, key: str) -> None:
    talk = Talk(ASSISTANTS[0])

    result = await talk.say("send money", message_metadata={key: content})

    assert result.task_state in TaskState
