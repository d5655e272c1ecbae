"""Flows as the engine runs them: steps by id, and which slots belong to whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from server.dialogue.conditions import Condition
from server.dialogue.slots import Rejection

END = "END"
PATTERN_PREFIX = "pattern_"


class StepKind(StrEnum):
    ACTION = "action"
    COLLECT = "collect"
    SET_SLOTS = "set_slots"
    LINK = "link"
    CALL = "call"
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Branch:
    """`condition` is None for else, and a text for one that has to be rendered first."""

    condition: Condition | str | None
    target: str


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    index: int  # position in the file, nested steps included: "earlier" means a smaller one
    kind: StepKind
    next: str | tuple[Branch, ...]
    target: str = ""  # the action, the slot, or the flow
    description: str = ""
    ask_first: bool = False
    keeps: bool = False  # reset_after_flow_ends: false
    question: str = ""
    question_is_action: bool = False
    rejections: tuple[Rejection, ...] = ()
    forces: bool = False
    assignments: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Flow:
    id: str
    name: str
    description: str
    steps: dict[str, Step]
    first: str
    guard: Condition | None = None
    intents: tuple[str, ...] = ()
    always_in_prompt: bool = False
    runs_completed: bool = True
    persisted: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    @property
    def is_pattern(self) -> bool:
        return self.id.startswith(PATTERN_PREFIX)


@dataclass(frozen=True, slots=True)
class Scope:
    """The slots of a flow together with those of the flows it calls."""

    collects: dict[str, Step]  # first collect step of each slot, in the order of asking
    slots: frozenset[str]  # collected or set
    resets: tuple[str, ...]  # cleared when the flow ends
    persisted: tuple[str, ...]
    asked_first: frozenset[str]


def scope_of(flow_id: str, flows: dict[str, Flow]) -> Scope:
    """Follows `call` steps, so that a parent owns what its children ask."""
    collects: dict[str, Step] = {}
    written: dict[str, None] = {}
    persisted: dict[str, None] = {}
    asked_first: set[str] = set()
    seen: set[str] = set()

    def visit(current: str) -> None:
        flow = flows.get(current)
        if flow is None or current in seen:
            return
        seen.add(current)
        persisted.update(dict.fromkeys(flow.persisted))
        for step in sorted(flow.steps.values(), key=lambda step: step.index):
            match step.kind:
                case StepKind.COLLECT:
                    collects.setdefault(step.target, step)
                    written[step.target] = None
                    if step.ask_first:
                        asked_first.add(step.target)
                    if step.keeps:
                        persisted[step.target] = None
                case StepKind.SET_SLOTS:
                    written.update(dict.fromkeys(name for name, _ in step.assignments))
                case StepKind.CALL:
                    visit(step.target)
                case _:
                    pass

    visit(flow_id)
    return Scope(
        collects=collects,
        slots=frozenset(written),
        resets=tuple(name for name in written if name not in persisted),
        persisted=tuple(persisted),
        asked_first=frozenset(asked_first),
    )
