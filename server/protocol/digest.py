"""The digest of a message: the same for the same content, whatever dialect, key order or spelling of numbers."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from server.protocol.model import JsonObject, Part, SendMessage
from server.protocol.text import prover

# Below this a double is an exact integer, so `1.0` and `1` can only mean the same.
_EXACT = 2**53

_encode = prover(sort_keys=True, ensure_ascii=True, allow_nan=True)


def message_digest(send: SendMessage) -> str:
    """32 hex characters over what makes a message the same; its id, context and send options are not part of it."""
    message = send.message
    content = [
        message.role,
        message.task_id,
        [_part(part) for part in message.parts],
        _json_object(message.metadata),
        _json_object(send.metadata),
        message.extensions,
        message.reference_task_ids,
    ]
    return blake2b(_encode(content).encode(), digest_size=16).hexdigest()


def _part(part: Part) -> tuple[Any, ...]:
    value = _plain(part.value) if part.kind == "data" else part.value
    return part.kind, value, part.filename, part.media_type, _json_object(part.metadata)


def _json_object(value: JsonObject | None) -> Any:
    """Empty and absent are one: a client of 1.0 cannot send the difference."""
    return _plain(value) if value else None


def _plain(value: Any) -> Any:
    """The value with integral doubles as integers: clients of 1.0 hold all numbers as doubles and send `1.0` for 1."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
