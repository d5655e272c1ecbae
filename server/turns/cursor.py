"""Positions in a task's event log: (fence, sequence), written `<fence>-<sequence>` as SSE and Redis ids."""

from __future__ import annotations

import re

Cursor = tuple[int, int]

START: Cursor = (0, 0)
_FORM = re.compile(r"^(\d{1,15})-(\d{1,15})$")


def parse(text: str) -> Cursor | None:
    """The position, or None when the text is none of ours. A bare `0` is none: its client has seen nothing yet."""
    match = _FORM.match(text)
    return (int(match.group(1)), int(match.group(2))) if match else None


def render(cursor: Cursor) -> str:
    return f"{cursor[0]}-{cursor[1]}"


def of(text: str) -> Cursor:
    """A position that the store wrote."""
    fence, _, sequence = text.partition("-")
    return int(fence), int(sequence)
