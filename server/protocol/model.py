"""The one internal model of A2A: version-free tasks, messages, parts, artifacts and events.

Both dialects decode into these and encode from them; nothing here knows `kind`, `final` or an enum's wire spelling.
Timestamps are whole milliseconds since the epoch and come from Redis alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from stores.lean import lean

JsonObject = dict[str, Any]


class State(StrEnum):
    """What A2A shows of a task."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    AUTH_REQUIRED = "auth_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"

    @property
    def terminal(self) -> bool:
        """No message can move the task any more."""
        return self in _TERMINAL

    @property
    def interrupted(self) -> bool:
        """The task waits for its caller."""
        return self in _INTERRUPTED


_TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELED, State.REJECTED})
_INTERRUPTED = frozenset({State.INPUT_REQUIRED, State.AUTH_REQUIRED})


class Role(StrEnum):
    USER = "user"
    AGENT = "agent"


PartKind = Literal["text", "raw", "url", "data"]


@lean
@dataclass(frozen=True, slots=True)
class Part:
    """One piece of content. `value` is str for text and url, standard base64 str for raw, any JSON value for data."""

    kind: PartKind
    value: Any
    filename: str | None = None
    media_type: str | None = None
    metadata: JsonObject | None = None


@lean
@dataclass(frozen=True, slots=True)
class Message:
    message_id: str
    role: Role
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None
    metadata: JsonObject | None = None
    extensions: tuple[str, ...] = ()
    reference_task_ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text parts, one line each."""
        return "\n".join([part.value for part in self.parts if part.kind == "text"])

    def within(self, context_id: str, task_id: str) -> Message:
        """The same, of this task."""
        return Message(
            self.message_id,
            self.role,
            self.parts,
            context_id,
            task_id,
            self.metadata,
            self.extensions,
            self.reference_task_ids,
        )


@lean
@dataclass(frozen=True, slots=True)
class Artifact:
    artifact_id: str
    parts: tuple[Part, ...]
    name: str | None = None
    description: str | None = None
    metadata: JsonObject | None = None
    extensions: tuple[str, ...] = ()


@lean
@dataclass(frozen=True, slots=True)
class Status:
    state: State
    at_ms: int
    message: Message | None = None

    def at(self, at_ms: int) -> Status:
        return Status(self.state, at_ms, self.message)


@lean
@dataclass(frozen=True, slots=True)
class Task:
    """`trace` (the traceparent of the request it began with) and `extra` (what a newer release wrote beside) are kept
    with the task and never shown."""

    id: str
    context_id: str
    status: Status
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[Message, ...] = ()
    metadata: JsonObject | None = None
    trace: str = ""
    extra: JsonObject | None = None

    # Each of these methods is what dataclasses.replace would do, in a fifth of its time; every turn needs them.
    def having(self, status: Status) -> Task:
        return Task(
            self.id, self.context_id, status, self.artifacts, self.history, self.metadata, self.trace, self.extra
        )


@lean
@dataclass(frozen=True, slots=True)
class StatusUpdate:
    task_id: str
    context_id: str
    status: Status
    metadata: JsonObject | None = None

    def at(self, at_ms: int) -> StatusUpdate:
        return StatusUpdate(self.task_id, self.context_id, self.status.at(at_ms), self.metadata)


@lean
@dataclass(frozen=True, slots=True)
class ArtifactUpdate:
    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: JsonObject | None = None


@lean
@dataclass(frozen=True, slots=True)
class MessageJoined:
    """A caller's message became part of an existing task. Kept in the log for the history; never on the wire."""

    task_id: str
    context_id: str
    message: Message


WireEvent = StatusUpdate | ArtifactUpdate
Event = WireEvent | MessageJoined
StreamItem = Task | Message | WireEvent


@lean
@dataclass(frozen=True, slots=True)
class PushConfig:
    """Where task updates are posted. `dialect` is the one it was registered in, since receivers can read only that."""

    id: str | None
    url: str
    token: str | None = None
    auth_schemes: tuple[str, ...] = ()
    credentials: str | None = None
    dialect: str = "1.0"


@lean
@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: tuple[Task, ...]
    next_page_token: str
    page_size: int
    total_size: int
    include_artifacts: bool = False


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the agent can do, as its card says. `extra` are members of a static card we do not interpret."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()
    extra: JsonObject = field(default_factory=dict)


# --- requests: what the operations take, whatever dialect or binding they came in ---------------------------------


@lean
@dataclass(frozen=True, slots=True)
class SendMessage:
    """`wait` is already normalised from 0.3's `blocking` and 1.0's `returnImmediately`; so is `history_length`,
    where None means everything and 0 means none."""

    message: Message
    wait: bool = True
    history_length: int | None = None
    accepted_output_modes: tuple[str, ...] = ()
    push: PushConfig | None = None
    metadata: JsonObject | None = None


@lean
@dataclass(frozen=True, slots=True)
class GetTask:
    task_id: str
    history_length: int | None = None


@lean
@dataclass(frozen=True, slots=True)
class ListTasks:
    context_id: str | None = None
    state: State | None = None
    page_size: int = 50
    page_token: str | None = None
    history_length: int | None = None
    after_ms: int | None = None
    include_artifacts: bool = False


@lean
@dataclass(frozen=True, slots=True)
class CancelTask:
    task_id: str
    metadata: JsonObject | None = None


@lean
@dataclass(frozen=True, slots=True)
class SubscribeToTask:
    task_id: str


@lean
@dataclass(frozen=True, slots=True)
class CreatePushConfig:
    task_id: str
    config: PushConfig


@lean
@dataclass(frozen=True, slots=True)
class GetPushConfig:
    """`config_id` None is 0.3's deprecated form: the first or default config."""

    task_id: str
    config_id: str | None = None


@lean
@dataclass(frozen=True, slots=True)
class ListPushConfigs:
    task_id: str


@lean
@dataclass(frozen=True, slots=True)
class DeletePushConfig:
    task_id: str
    config_id: str


@dataclass(frozen=True, slots=True)
class GetExtendedCard:
    pass


Request = (
    SendMessage
    | GetTask
    | ListTasks
    | CancelTask
    | SubscribeToTask
    | CreatePushConfig
    | GetPushConfig
    | ListPushConfigs
    | DeletePushConfig
    | GetExtendedCard
)


@lean
@dataclass(frozen=True, slots=True)
class Interface:
    """One address of the agent: url, binding (`JSONRPC`, `HTTP+JSON`) and protocol version (`1.0`, `0.3`)."""

    url: str
    binding: str
    version: str


@dataclass(frozen=True, slots=True)
class Card:
    """The agent card: the 1.0 model; the 0.3 view is derived from the interfaces of that version.

    `security` holds the ready members `securitySchemes`, `security` and `securityRequirements` (both shapes side by
    side), empty when the endpoint is open. `extra` are members of a static card we do not interpret.
    """

    name: str
    description: str
    version: str
    interfaces: tuple[Interface, ...]
    skills: tuple[Skill, ...]
    streaming: bool = True
    push_notifications: bool = False
    extended_card: bool = False
    input_modes: tuple[str, ...] = ("text/plain", "application/json")
    output_modes: tuple[str, ...] = ("text/plain", "application/json")
    security: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
