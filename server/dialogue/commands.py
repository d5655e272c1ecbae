"""What a message asks of the dialogue: the closed vocabulary between generators and engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Source(StrEnum):
    """Who said it; each has its own rights over slots."""

    USER = "user"
    BUTTON = "button"
    ORCHESTRATOR = "orchestrator"


@dataclass(frozen=True, slots=True)
class StartFlow:
    flow: str
    guarded: bool = True  # an explicit /intent starts its flow whatever the guard says


@dataclass(frozen=True, slots=True)
class SetSlot:
    slot: str
    value: Any
    source: Source = Source.USER


@dataclass(frozen=True, slots=True)
class CancelFlow:
    pass


@dataclass(frozen=True, slots=True)
class Clarify:
    flows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CannotHandle:
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ChitChat:
    pass


@dataclass(frozen=True, slots=True)
class KnowledgeAnswer:
    pass


@dataclass(frozen=True, slots=True)
class HumanHandoff:
    pass


@dataclass(frozen=True, slots=True)
class SkipQuestion:
    pass


@dataclass(frozen=True, slots=True)
class RepeatBotMessages:
    pass


@dataclass(frozen=True, slots=True)
class TriggerIntent:
    intent: str


@dataclass(frozen=True, slots=True)
class Restart:
    pass


@dataclass(frozen=True, slots=True)
class SessionStart:
    pass


@dataclass(frozen=True, slots=True)
class SessionEnd:
    pass


@dataclass(frozen=True, slots=True)
class Failure:
    """Something went wrong before the engine; `clears` tells whether the running flow can't go on."""

    error_type: str
    info: dict[str, Any] = field(default_factory=dict)
    clears: bool = True


Command = (
    StartFlow
    | SetSlot
    | CancelFlow
    | Clarify
    | CannotHandle
    | ChitChat
    | KnowledgeAnswer
    | HumanHandoff
    | SkipQuestion
    | RepeatBotMessages
    | TriggerIntent
    | Restart
    | SessionStart
    | SessionEnd
    | Failure
)

NOT_SUPPORTED = "cannot_handle_not_supported"
INPUT_EMPTY = "rasa_internal_error_user_input_empty"
INPUT_TOO_LONG = "rasa_internal_error_user_input_too_long"
ERROR_DEFAULT = "rasa_internal_error_default"
