"""`python -m bench`, or `make bench`: measure, print a table, and write what was asked for."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import page, results, table
from bench.children import NotStarted
from bench.measure import BadRun
from bench.plot import plot
from bench.results import Results
from bench.run import Run
from bench.scenarios.cancel import cancel
from bench.scenarios.growth import contexts, idle, queued, tasks, workers
from bench.scenarios.repeats import log, repeats
from bench.scenarios.streams import follow, paced, streams
from bench.scenarios.turns import turns

SCENARIOS: dict[str, Callable[[Run, Results], None]] = {
    "turns": turns,
    "streams": streams,
    "paced": paced,
    "follow": follow,
    "cancel": cancel,
    "repeats": repeats,
    "log": log,
    "tasks": tasks,
    "contexts": contexts,
    "queued": queued,
    "workers": workers,
    "idle": idle,
}

# What a quick run goes without.
LONG = ("log", "contexts", "queued", "workers", "idle")


def main() -> int:
    flags = parser().parse_args()
    if sys.platform != "linux":
        print("The CPU time of other processes is read as Linux shows it; run this on Linux.", file=sys.stderr)
        return 2
    seconds = flags.seconds or (1.0 if flags.quick else 5.0)
    run = Run(flags.quick, seconds, flags.rounds or (2 if flags.quick else 4), frozenset(flags.subject))
    found = Results(about=results.about())
    began = time.monotonic()
    chosen = flags.only or [name for name in SCENARIOS if not (flags.quick and name in LONG)]
    for name in chosen:
        run.say(name)
        try:
            SCENARIOS[name](run, found)
        except (BadRun, NotStarted) as error:
            run.say(f"{name} failed: {error}")
            found.failed[name] = str(error)
    found.about["peers"] = results.peers()
    found.about["took_s"] = round(time.monotonic() - began)
    found.about["load_after"] = round(os.getloadavg()[0], 2)
    titles = {name: " ".join((scenario.__doc__ or "").split()) for name, scenario in SCENARIOS.items()}
    for name in chosen:
        print(f"\n{name}: {titles[name]}")
        print(table.plain(found.of(name)))
    for name, why in found.skipped.items():
        print(f"\nnot run: {name}: {why}")
    for name, why in found.failed.items():
        print(f"\nFAILED: {name}: {why}")
    if flags.json:
        found.write(flags.json)
    if flags.svg:
        flags.svg.write_text(plot(found))
    if flags.write:
        page.write(found, titles)
    return 1 if found.failed else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench", description="Measures nonstick beside its peers.")
    made.add_argument("--quick", action="store_true", help="a minute or two: less of everything, and not all")
    made.add_argument(
        "--only", metavar="SCENARIO", action="extend", nargs="+", choices=SCENARIOS, help=" ".join(SCENARIOS)
    )
    made.add_argument("--subject", metavar="NAME", action="extend", nargs="+", default=[], help="only these servers")
    made.add_argument("--seconds", metavar="S", type=float, help="of each measurement (5, quick 1)")
    made.add_argument("--rounds", metavar="N", type=int, help="over which the median is taken (4, quick 2)")
    made.add_argument("--json", metavar="FILE", type=Path, help="write everything there, for machines")
    made.add_argument("--svg", metavar="FILE", type=Path, help="draw the CPU of turns and events there, for people")
    made.add_argument("--write", action="store_true", help="put the numbers into docs/performance.md")
    return made


if __name__ == "__main__":
    sys.exit(main())
