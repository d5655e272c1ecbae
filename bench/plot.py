"""Bars of CPU time, as SVG. The scale is logarithmic: the dearest peer takes a hundred times the bare limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.results import Results, Row

WIDTH, LABELS, BAR, GAP, HEAD, FOOT = 860, 260, 18, 8, 54, 30
LOWEST = 10.0
OURS, THEIRS, LIMIT, STORE = "#0b7285", "#adb5bd", "#e9c46a", "#495057"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#212529}.h{font-size:15px;font-weight:600}.s{font-size:11px;fill:#495057}"
)


def plot(results: Results) -> str:
    """Two panels: a plain turn, and an event of 50 fast streams."""
    panels = [
        ("CPU of a plain blocking turn, µs (server, then its store)", results.of("turns")),
        (
            "CPU of a streamed event, 50 streams at once, µs",
            [row for row in results.of("streams") if row.subject.endswith(", 50 streams")],
        ),
    ]
    drawn, top = [], 0
    for title, rows in panels:
        if rows:
            piece, height = _panel(title, rows, top)
            drawn.append(piece)
            top += height
    about = results.about
    foot = escape(f"{about['date'][:10]}, {about['cores']} cores, Python {about['python']}; make bench")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 20}" width="{WIDTH}" height="{top + 20}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(drawn)
        + f'<text class="s" x="{WIDTH - 12}" y="{top + 8}" text-anchor="end">{foot}</text></svg>\n'
    )


def _panel(title: str, rows: Sequence[Row], top: int) -> tuple[str, int]:
    rows = sorted(rows, key=_total)
    highest = 10 ** math.ceil(math.log10(max(_total(row) for row in rows)))
    height = HEAD + len(rows) * (BAR + GAP) + FOOT
    parts = [f'<text class="h" x="12" y="{top + 24}">{escape(title)}</text>']
    mark = LOWEST
    while mark <= highest:
        x = _x(mark, highest)
        parts.append(
            f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{top + HEAD - 8}" y2="{top + height - FOOT}" stroke="#dee2e6"/>'
            f'<text class="s" x="{x:.0f}" y="{top + height - FOOT + 14}" text-anchor="middle">{mark:,.0f}</text>'
        )
        mark *= 10
    for number, row in enumerate(rows):
        y = top + HEAD + number * (BAR + GAP)
        server, whole = row.numbers["server_us"] or LOWEST, _total(row)
        colour = OURS if row.subject.startswith("nonstick") else LIMIT if row.subject.startswith("bare") else THEIRS
        middle, end = _x(server, highest), _x(whole, highest)
        name = row.subject.removesuffix(", 50 streams")
        shown = f"{server:,.0f}" + (f" + {whole - server:,.0f}" if whole > server else "")
        parts.append(
            f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{LABELS}" y="{y}" width="{middle - LABELS:.0f}" height="{BAR}" fill="{colour}"/>'
            f'<rect x="{middle:.0f}" y="{y}" width="{end - middle:.0f}" height="{BAR}" fill="{STORE}"/>'
            f'<text x="{end + 6:.0f}" y="{y + 14}">{shown}</text>'
        )
    return "".join(parts), height


def _total(row: Row) -> float:
    return (row.numbers["server_us"] or 0.0) + (row.numbers.get("store_us") or 0.0)


def _x(value: float, highest: float) -> float:
    share = math.log10(max(value, LOWEST) / LOWEST) / math.log10(highest / LOWEST)
    return LABELS + share * (WIDTH - LABELS - 110)
