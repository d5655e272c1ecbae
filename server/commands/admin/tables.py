"""How the operator's commands show things: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from server.auth.caller import ANONYMOUS
from stores.units import span


@dataclass(frozen=True, slots=True)
class Shown:
    """What a command found: for scripts, for people, and its exit code."""

    data: Any
    text: str
    code: int = 0

    def render(self, *, as_json: bool) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) if as_json else self.text


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> str:
    """Columns as wide as they need to be; a sentence where there are no rows."""
    if not rows:
        return empty
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[place]) for row in texts)) for place, name in enumerate(head)]
    lines = [head, *texts]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """One fact a line."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in pairs)


def since(ms: int, now_ms: int) -> str:
    """How long ago, as people say it."""
    return span(max(0, now_ms - ms)) if ms > 0 else "-"


def stamp(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if ms > 0 else "-"


def short(text: str, length: int = 36) -> str:
    """Client text may be long, and may hold what a terminal would obey."""
    safe = "".join(char if char.isprintable() else "\ufffd" for char in text[: length + 1])
    return safe if len(safe) <= length else safe[: length - 1] + "…"


def shown_caller(caller: str) -> str:
    return "anonymous" if caller == ANONYMOUS.key else caller
