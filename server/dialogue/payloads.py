"""Messages that are commands already: button payloads and the slash words."""

from __future__ import annotations

import json
import re
from typing import Any

from server.dialogue.commands import Command, Restart, SessionEnd, SessionStart, SetSlot, Source, TriggerIntent

MAX_PAIRS = 10
_SET_SLOTS = re.compile(r"/SetSlots\((?P<pairs>[^()]*)\)")
_INTENT = re.compile(r"/(?P<intent>[A-Za-z_][\w-]*)(?P<entities>\{.*\})?", re.DOTALL)
_WORDS: dict[str, Command] = {"restart": Restart(), "session_start": SessionStart(), "session_end": SessionEnd()}


def parse_payload(text: str) -> list[Command] | None:
    """The commands a payload stands for; None when the text is not a payload."""
    if not text.startswith("/"):
        return None
    match = _SET_SLOTS.fullmatch(text.strip())
    if match is not None:
        return _set_slots(match.group("pairs"))
    match = _INTENT.fullmatch(text.strip())
    if match is None:
        return None
    intent = match.group("intent")
    if intent in _WORDS and not match.group("entities"):
        return [_WORDS[intent]]
    entities = _entities(match.group("entities"))
    if entities is None:
        return None
    return [TriggerIntent(intent), *(SetSlot(name, value, Source.BUTTON) for name, value in entities.items())]


def _set_slots(pairs: str) -> list[Command] | None:
    commands: list[Command] = []
    for pair in pairs.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            return None
        stripped = value.strip()
        commands.append(SetSlot(name.strip(), None if stripped in ("null", "None") else stripped, Source.BUTTON))
    return commands if len(commands) <= MAX_PAIRS else None


def _entities(text: str | None) -> dict[str, Any] | None:
    if not text:
        return {}
    try:
        entities = json.loads(text)
    except ValueError:
        return None
    return entities if isinstance(entities, dict) else None
