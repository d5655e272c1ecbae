"""Reads a language model's answer: one known command per line, everything else is dropped."""

from __future__ import annotations

import re
from collections.abc import Callable

from server.dialogue.commands import (
    CancelFlow,
    ChitChat,
    Clarify,
    Command,
    HumanHandoff,
    KnowledgeAnswer,
    RepeatBotMessages,
    SetSlot,
    SkipQuestion,
    StartFlow,
)

# An answer is a handful of lines; more is a model that lost its way.
MAX_LINES = 20
MAX_VALUE = 1000

_NAME = r"[A-Za-z0-9_][\w-]*"
_PREFIX = re.compile(r"^(?:[-*•>]+\s*|\d+[.)]\s*)+")
_NOTHING = frozenset({"undefined", "null", "none"})

_Reader = Callable[[re.Match[str]], Command]


def _start(match: re.Match[str]) -> Command:
    return StartFlow(match.group(1))


def _set(match: re.Match[str]) -> Command:
    value = _unquoted(match.group(2))
    return SetSlot(match.group(1), None if value.lower() in _NOTHING else value[:MAX_VALUE])


def _clarify(match: re.Match[str]) -> Command:
    return Clarify(tuple(re.findall(_NAME, match.group(1) or "")))


_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reader)
    for pattern, reader in (
        (rf"start flow ({_NAME})", _start),
        (rf"StartFlow\(\s*[\"']?({_NAME})[\"']?\s*\)", _start),
        (rf"set slot ({_NAME})\s+(.+)", _set),
        (rf"SetSlot\(\s*[\"']?({_NAME})[\"']?\s*,\s*(.*?)\s*\)", _set),
        (r"cancel flow", lambda match: CancelFlow()),
        (r"CancelFlow\(\s*\)", lambda match: CancelFlow()),
        (rf"disambiguate flows((?:[\s,]+{_NAME})+)", _clarify),
        (r"Clarify\(([^()]*)\)", _clarify),
        (r"repeat message|RepeatLastBotMessages\(\s*\)", lambda match: RepeatBotMessages()),
        (r"hand over|HumanHandoff\(\s*\)", lambda match: HumanHandoff()),
        (r"skip question|SkipQuestion\(\s*\)", lambda match: SkipQuestion()),
        (r"search and reply|provide info|SearchAndReply\(\s*\)", lambda match: KnowledgeAnswer()),
        (r"offtopic reply|ChitChat\(\s*\)", lambda match: ChitChat()),
    )
)


def read_lines(answer: str) -> tuple[list[Command], int]:
    """The commands of an answer, and how many lines were not understood."""
    commands: list[Command] = []
    dropped = 0
    for raw in answer.splitlines()[:MAX_LINES]:
        line = _PREFIX.sub("", raw.strip()).strip().strip("`").strip()
        if not line or line.lower() in ("text", "plaintext"):
            continue
        line = _unquoted(line)
        for pattern, reader in _READERS:
            match = pattern.fullmatch(line)
            if match is not None:
                commands.append(reader(match))
                break
        else:
            dropped += 1
    return commands, dropped


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].strip()
    return text
