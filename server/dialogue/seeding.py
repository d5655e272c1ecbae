"""Slots that an orchestrator sends along: found in three places, merged, then made to fit the domain."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.dialogue.domain import Domain
from server.dialogue.slots import InvalidValue, coerce, is_null_word

logger = logging.getLogger("nonstick.dialogue")

INVALID_VALUE = "a2a_server.message_adapter.skip_slot.invalid_value"
NOT_ALLOWED = "a2a_server.message_adapter.skip_slot.not_allowed"
INVALID_MARKER = "a2a_server.message_adapter.skip_marker.invalid_json"

_LINE = re.compile(r"^[ \t]*SLOTS:[ \t]*(?P<json>.+?)[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"```json[ \t]*\r?\n(?P<json>(?:(?!```).)*?)\r?\n?[ \t]*```\s*\Z", re.DOTALL)


@dataclass(slots=True)
class Seeds:
    """The user's own words without the markers, and the values that can be stored."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)
    given: bool = False  # slots were sent, usable or not


def read_seeds(
    text: str,
    data: Sequence[Mapping[str, Any]],
    message_metadata: Mapping[str, Any],
    request_metadata: Mapping[str, Any],
    domain: Domain,
    allowlist: frozenset[str] | None = None,
) -> Seeds:
    """Text markers, then metadata (the message's over the request's), then data parts: the later wins per slot."""
    own_text, merged = strip_markers(text) if "SLOTS:" in text or "```" in text else (text, {})
    for source in (request_metadata, message_metadata, *data):
        slots = source.get("slots")
        if isinstance(slots, dict):
            merged.update(slots)
    if not merged:
        return Seeds(own_text)
    return Seeds(own_text, fit(merged, domain, allowlist), True)


def strip_markers(text: str) -> tuple[str, dict[str, Any]]:
    """Takes `SLOTS: {...}` lines and a trailing JSON fence out of a text; one that is no JSON object stays."""
    marks: list[tuple[int, int, dict[str, Any]]] = []
    fence = _FENCE.search(text)
    body_end = len(text)
    if fence is not None:
        found = _object(fence.group("json"))
        if found is None:
            logger.warning(INVALID_MARKER, extra={"marker": "fence"})
        else:
            marks.append((fence.start(), fence.end(), found))
            body_end = fence.start()
    for match in _LINE.finditer(text, 0, body_end):
        found = _object(match.group("json"))
        if found is None:
            logger.warning(INVALID_MARKER, extra={"marker": "line"})
        else:
            marks.append((match.start(), match.end(), found))
    if not marks:
        return text, {}
    marks.sort(key=lambda mark: mark[0])
    values: dict[str, Any] = {}
    pieces: list[str] = []
    at = 0
    for start, end, found in marks:
        pieces.append(text[at:start])
        at = end
        values.update(found)
    pieces.append(text[at:])
    return "\n".join(piece.strip() for piece in pieces if piece.strip()), values


def fit(values: Mapping[str, Any], domain: Domain, allowlist: frozenset[str] | None) -> dict[str, Any]:
    """The values of slots the orchestrator may set, coerced; what does not fit is skipped and logged."""
    fitting: dict[str, Any] = {}
    for name, value in values.items():
        slot = domain.slots.get(name)
        if slot is None or slot.builtin:
            continue
        if allowlist is not None and name not in allowlist:
            logger.warning(NOT_ALLOWED, extra={"slot": name})
            continue
        try:
            fitting[name] = None if is_null_word(value) else coerce(slot, value)
        except InvalidValue as error:
            # the value itself may be personal data, so only its kind is logged
            logger.warning(
                INVALID_VALUE,
                extra={
                    "slot": name,
                    "slot_type": slot.type.value,
                    "value_type": type(value).__name__,
                    "reason": str(error),
                },
            )
    return fitting


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
