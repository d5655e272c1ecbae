"""The costs that were recorded, and what a run may find: not more. `make costs` records them again."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("recorded.json")
RECORD_VARIABLE = "NONSTICK_RECORD_COSTS"
# Ids, times and process numbers are not always of one length.
BYTES_SHARE = 0.03

RATIO = "CPU of a plain turn by the bare limit's"

Cost = dict[str, Any]


class CostNews(UserWarning):
    """A cost that should be looked at, or recorded again; never a failure."""


def judge(kind: str, found: Cost, *, racing: str = "") -> None:
    """Fails when a kind of turn costs more than was recorded, and says so when it costs less.

    `racing` is a call that a follower makes once more, or not, depending on who comes first: then the calls alone are
    compared, and that one may come once more.
    """
    if os.environ.get(RECORD_VARIABLE):
        _record(kind, found)
        return
    everything = _read()
    assert kind in everything, f"no cost of {kind!r} is recorded: run `make costs` and look at the change"
    recorded = everything[kind]
    differences = _differences(recorded, found)
    if racing:
        name = f"calls of {racing}"
        calls = [line for line in differences if line[0].startswith("calls of")]
        differences = [line for line in calls if line[0] != name or abs(line[2] - line[1]) > 1]
    dearer = [line for line in differences if line[2] > line[1]]
    assert not dearer, (
        f"{kind} costs more than recorded:\n"
        + "\n".join(f"  {name}: {before} -> {now}" for name, before, now in dearer)
        + "\nIf that is worth it, run `make costs`, say why in the commit, and keep the new numbers."
    )
    cheaper = [line for line in differences if line[2] < line[1] and line[0] != "round_trips"]
    if cheaper:
        what = ", ".join(f"{name} {before} -> {now}" for name, before, now in cheaper)
        warnings.warn(f"{kind} costs less than recorded ({what}): `make costs` keeps it so", CostNews, stacklevel=2)


def read_ratio() -> float:
    """CPU of a plain turn by that of the bare limit."""
    return float(_read()[RATIO]["ratio"])


def record_ratio(ratio: float) -> None:
    _record(RATIO, {"ratio": round(ratio, 1)})


def _differences(recorded: Cost, found: Cost) -> list[tuple[str, int, int]]:
    lines = [
        (f"calls of {name}", recorded["calls"].get(name, 0), found["calls"].get(name, 0))
        for name in sorted({*recorded["calls"], *found["calls"]})
    ]
    lines += [(name, recorded[name], found[name]) for name in ("round_trips", "commands")]
    for name in ("bytes_sent", "bytes_received"):
        if abs(found[name] - recorded[name]) > BYTES_SHARE * recorded[name]:
            lines.append((name, recorded[name], found[name]))
    return lines


def _read() -> dict[str, Cost]:
    if not FILE.exists():
        return {}
    read: dict[str, Cost] = json.loads(FILE.read_text())
    return read


def _record(kind: str, found: Cost) -> None:
    everything = {**_read(), kind: found}
    FILE.write_text(json.dumps(dict(sorted(everything.items())), indent=1) + "\n")
