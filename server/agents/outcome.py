"""How a turn can end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.protocol.model import JsonObject, Part, State
from stores.lean import lean


@lean
@dataclass(frozen=True, slots=True)
class Outcome:
    """The state a turn leaves its task in, and what is said with it. Made by the functions below."""

    state: State
    parts: tuple[Part, ...] = ()
    metadata: JsonObject | None = None
    direct: bool = False


def _outcome(
    state: State,
    text: str | None,
    data: Mapping[str, Any] | None,
    parts: Sequence[Part],
    metadata: Mapping[str, Any] | None,
    *,
    direct: bool = False,
) -> Outcome:
    said: list[Part] = [] if text is None else [Part("text", text)]
    if data is not None:
        said.append(Part("data", dict(data)))
    return Outcome(state, (*said, *parts), dict(metadata) if metadata else None, direct)


def completed(
    text: str | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """The work is done."""
    return _outcome(State.COMPLETED, text, data, parts, metadata)


def input_required(
    text: str | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """The caller has to say something; the context stays reserved for it."""
    return _outcome(State.INPUT_REQUIRED, text, data, parts, metadata)


def auth_required(
    text: str | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """The caller has to bring a credential; the context stays reserved for it."""
    return _outcome(State.AUTH_REQUIRED, text, data, parts, metadata)


def rejected(
    text: str | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """This is not something the agent does."""
    return _outcome(State.REJECTED, text, data, parts, metadata)


def failed(
    text: str | None = None,
    *,
    error_type: str | None = None,
    error_info: str | None = None,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """It went wrong; `error_type` and `error_info` tell the caller what, as data."""
    about = dict(data or {})
    if error_type is not None:
        about["error_type"] = error_type
    if error_info is not None:
        about["error_info"] = error_info
    return _outcome(State.FAILED, text, about or None, parts, metadata)


def canceled(
    text: str | None = None, *, data: Mapping[str, Any] | None = None, metadata: Mapping[str, Any] | None = None
) -> Outcome:
    """For `on_cancel`: what goes with the canceled task."""
    return _outcome(State.CANCELED, text, data, (), metadata)


def reply(
    text: str | None = None,
    *,
    data: Mapping[str, Any] | None = None,
    parts: Sequence[Part] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Outcome:
    """A direct Message instead of a task. Once the task was shown to anyone, it completes the task instead."""
    return _outcome(State.COMPLETED, text, data, parts, metadata, direct=True)
