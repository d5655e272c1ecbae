"""The state of one dialogue: slots, stack and what happened in the turn, and its stored form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from server.dialogue.domain import Domain
from server.dialogue.flows import END, Flow, StepKind

SCHEMA = 1
# How many lines are remembered for language models and actions; it travels with every turn, so it is bounded.
HISTORY_LINES = 40
SHORT_HISTORY_LINES = 10

Document = dict[str, Any]
# schema a document was written with -> what makes it the next schema's document
UPCASTS: dict[int, Callable[[Document], Document]] = {}


class UnreadableState(ValueError):
    """The stored state can't be understood by this version."""


@dataclass(slots=True, eq=False)
class Frame:
    """One flow on the stack; the last one of the stack is running."""

    id: int
    flow: str
    step: str
    kind: str  # regular, interrupt, link, call or pattern
    started: bool = False
    phase: str = ""  # of the current step: entered, checked, asked or called
    slot: str = ""  # what the current step asks for
    refill: bool = False  # the question after a domain-level rejection
    context: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)  # slots before this run, to restore when it is cancelled
    extra: Document = field(default_factory=dict)  # what a newer release wrote beside

    @property
    def is_user(self) -> bool:
        return self.kind != "pattern"


@dataclass(slots=True)
class TurnFacts:
    """What happened since the message arrived; the task state is derived from it."""

    text: str | None = None
    steps: int = 0
    waiting: bool = False
    quiet: bool = False  # the next question was already put in other words
    messages: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    ran: dict[str, dict[str, Any]] = field(default_factory=dict)  # pattern -> context of its last run
    completed: list[str] = field(default_factory=list)
    persisted: dict[str, Any] = field(default_factory=dict)
    cancelled: str | None = None
    started_after_cancel: bool = False
    closed: bool = False  # the user needs nothing else
    repaired: bool = False  # the stack did not fit the loaded assistant
    pending: dict[str, Any] | None = None  # the action that is being waited for
    queue: list[str] = field(default_factory=list)  # actions to run before the stack goes on
    latest_action: str = ""


@dataclass(slots=True)
class DialogueState:
    """Only values that are set are in `slots`, the most recently filled one last."""

    slots: dict[str, Any]
    stack: list[Frame] = field(default_factory=list)
    frames: int = 0
    began: bool = False
    options: list[str] = field(default_factory=list)  # flows the last clarification offered
    said: list[dict[str, Any]] = field(default_factory=list)  # bot messages of the last turn
    history: list[list[str]] = field(default_factory=list)
    turn: TurnFacts = field(default_factory=TurnFacts)
    written_by: str = ""
    # Another version of the assistant, or of this software, may go on with the dialogue during a deploy:
    foreign: dict[str, Any] = field(default_factory=dict)  # slots that this assistant's domain does not have
    extra: Document = field(default_factory=dict)  # members that this release does not know

    def set(self, name: str, value: Any) -> None:
        self.slots.pop(name, None)
        if value is not None:
            self.slots[name] = value

    def remember(self, who: str, text: str) -> None:
        self.history.append([who, text])


# Left out where they say nothing: False, "" or {}, as `Frame` has them by default.
_FRAME_OPTIONS = ("started", "phase", "slot", "refill", "context", "saved")
_FRAME_MEMBERS = frozenset({"id", "flow", "step", "kind", *_FRAME_OPTIONS})
_MEMBERS = frozenset({"schema", "assistant", "began", "frames", "slots", "stack", "options", "said", "history", "turn"})
_TURN_FIELDS = tuple(TurnFacts.__dataclass_fields__)
_write_deep = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class StateCodec:
    """Writes and reads states of one loaded assistant, which puts its fingerprint on what it writes."""

    domain: Domain
    fingerprint: str
    history_lines: int = HISTORY_LINES

    def new(self) -> DialogueState:
        return DialogueState(dict(self.domain.initial), written_by=self.fingerprint)

    def dump(self, state: DialogueState, *, with_turn: bool = False) -> str:
        initial = self.domain.initial
        if len(state.history) > self.history_lines:
            del state.history[: -self.history_lines]
        slots = {name: value for name, value in state.slots.items() if initial.get(name) != value}
        for name in initial:
            if name not in state.slots:
                slots[name] = None
        document: Document = {
            "schema": SCHEMA,
            "assistant": self.fingerprint,
            **state.extra,
            "began": state.began,
            "frames": state.frames,
            "slots": {**state.foreign, **slots} if state.foreign else slots,
            "stack": [_dump_frame(frame) for frame in state.stack],
            "options": state.options,
            "said": state.said,
            "history": state.history,
        }
        if with_turn:
            document["turn"] = {name: getattr(state.turn, name) for name in _TURN_FIELDS}
        return _write(document)

    def wrote(self, text: str) -> bool:
        """Whether this very assistant wrote it, which its first bytes tell."""
        return text.startswith(f'{{"schema":{SCHEMA},"assistant":"{self.fingerprint}"')

    def writer(self, text: str) -> str:
        """The fingerprint of whoever wrote it, also in a form that can't be read; '' where it has none."""
        try:
            return str(json.loads(text)["assistant"])
        except (ValueError, TypeError, KeyError):
            return ""

    def load(self, text: str) -> DialogueState:
        """Reads a stored state, of an older schema too; raises UnreadableState."""
        try:
            document = _upcast(_read(text))
            slots, foreign = dict(self.domain.initial), {}
            for name, value in document["slots"].items():
                if name not in self.domain.slots:
                    foreign[name] = value
                    continue
                slots.pop(name, None)
                if value is not None:
                    slots[name] = value
            state = DialogueState(
                slots=slots,
                foreign=foreign,
                extra={} if document.keys() <= _MEMBERS else _beside(document, _MEMBERS),
                stack=[_load_frame(frame) for frame in document["stack"]],
                frames=document["frames"],
                began=document["began"],
                options=document["options"],
                said=document["said"],
                history=document["history"],
                written_by=document["assistant"],
            )
            if "turn" in document:
                state.turn = TurnFacts(
                    **{name: value for name, value in document["turn"].items() if name in _TURN_FIELDS}
                )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableState(f"the stored dialogue can't be read: {error}") from error
        return state


def _write(document: Document) -> str:
    """pydantic's writer takes a quarter of the time of Python's. It would also write what is not JSON, but whatever
    gets into a state `is_storable`; and it gives up at some 200 levels, where Python's goes on."""
    try:
        return to_json(document).decode()
    except ValueError:
        return _write_deep(document)


def _read(text: str) -> Any:
    """The same the other way: the fast reader, and Python's for what only that one takes."""
    try:
        return from_json(text, cache_strings="keys")
    except (ValueError, TypeError):
        return json.loads(text)


def resolves(stack: Sequence[Frame], flows: dict[str, Flow]) -> bool:
    """True when every frame still has its flow and a step that means what it meant."""
    return all(_fits(frame, flows) for frame in stack)


def _fits(frame: Frame, flows: dict[str, Flow]) -> bool:
    flow = flows.get(frame.flow)
    if flow is None or frame.step == END:
        return flow is not None
    step = flow.steps.get(frame.step)
    if step is None:
        return False
    # an answer to the old question must not be taken for an answer to a new one of the same id
    return step.target == frame.slot if frame.slot else not frame.phase or step.kind is not StepKind.COLLECT


def _upcast(stored: Any) -> Document:
    if not isinstance(stored, dict) or not isinstance(stored.get("schema"), int):
        raise ValueError("it names no schema")
    document: Document = stored
    while document["schema"] < SCHEMA:
        step = UPCASTS.get(document["schema"])
        if step is None:
            raise ValueError(f"schema {document['schema']} is too old")
        document = {**step(document), "schema": document["schema"] + 1}
    if document["schema"] > SCHEMA:
        raise ValueError(f"schema {document['schema']} is newer than this version's {SCHEMA}")
    return document


def _beside(document: Document, known: frozenset[str]) -> Document:
    return {name: value for name, value in document.items() if name not in known}


def _load_frame(document: Document) -> Frame:
    if document.keys() <= _FRAME_MEMBERS:
        return Frame(**document)
    known = {name: value for name, value in document.items() if name in _FRAME_MEMBERS}
    return Frame(**known, extra=_beside(document, _FRAME_MEMBERS))


def _dump_frame(frame: Frame) -> Document:
    document: Document = {"id": frame.id, "flow": frame.flow, "step": frame.step, "kind": frame.kind, **frame.extra}
    for name in _FRAME_OPTIONS:
        if value := getattr(frame, name):
            document[name] = value
    return document
