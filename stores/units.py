"""Times and sizes as people say them."""

from __future__ import annotations


def span(ms: float) -> str:
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f}s"
    for length, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{name}"
    return f"{seconds:.0f}s"


def size(count: float) -> str:
    for name in ("B", "KB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} {name}" if name == "B" else f"{count:.1f} {name}"
        count /= 1000
    return f"{count:.1f} GB"
