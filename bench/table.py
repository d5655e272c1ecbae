"""Results as text tables, for a terminal or a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.results import Row

# name in the results -> heading; in this order, and only those that some row has
COLUMNS: Mapping[str, str] = {
    "turns_per_s": "calls/s",
    "events_per_s": "events/s",
    "server_us": "server CPU µs",
    "store_us": "store CPU µs",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "first_p50_ms": "first p50 ms",
    "first_p99_ms": "first p99 ms",
    "lag_p50_ms": "lag p50 ms",
    "lag_p99_ms": "lag p99 ms",
    "far_lag_p50_ms": "other worker p50 ms",
    "far_lag_p99_ms": "other worker p99 ms",
    "stop_p50_ms": "stopped p50 ms",
    "stop_p99_ms": "stopped p99 ms",
    "busiest": "busiest",
    "bytes_each": "bytes each",
    "store_bytes_each": "store bytes each",
    "server_mb": "server MB",
    "store_mb": "store MB",
    "times": "× nonstick",
}


def headings(rows: Sequence[Row], columns: Mapping[str, str]) -> list[str]:
    return [name for name in columns if any(row.numbers.get(name) is not None for row in rows)]


def plain(rows: Sequence[Row], columns: Mapping[str, str] = COLUMNS) -> str:
    """Aligned for a terminal."""
    names = headings(rows, columns)
    lines = [["", *(columns[name] for name in names)]]
    lines += [[row.subject, *(shown(row.numbers.get(name)) for name in names)] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names) + 1)]
    text = []
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def markdown(rows: Sequence[Row], columns: Mapping[str, str] = COLUMNS) -> str:
    names = headings(rows, columns)
    lines = [f"| | {' | '.join(columns[name] for name in names)} |", f"|---|{'---:|' * len(names)}"]
    lines += [f"| {row.subject} | {' | '.join(shown(row.numbers.get(name)) for name in names)} |" for row in rows]
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """Three digits are all that such a measurement has."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
