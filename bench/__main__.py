"""`python -m bench`, or `make bench`: measure, print a table, and write what was asked for."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import results, table
from bench.results import Results
from bench.run import Run
from bench.scenarios.streams import follow, paced, streams
from bench.scenarios.turns import turns

SCENARIOS: dict[str, Callable[[Run, Results], None]] = {
    "turns": turns,
    "streams": streams,
    "paced": paced,
    "follow": follow,
}


def main() -> int:
    flags = parser().parse_args()
    if sys.platform != "linux":
        print("The CPU time of other processes is read as Linux shows it; run this on Linux.", file=sys.stderr)
        return 2
    seconds = flags.seconds or (1.5 if flags.quick else 5.0)
    run = Run(flags.quick, seconds, flags.rounds or (2 if flags.quick else 4), frozenset(flags.subject))
    found = Results(about=results.about())
    began = time.monotonic()
    for name in flags.only or SCENARIOS:
        run.say(name)
        SCENARIOS[name](run, found)
    found.about["took_s"] = round(time.monotonic() - began)
    found.about["load_after"] = round(os.getloadavg()[0], 2)
    for name in flags.only or SCENARIOS:
        print(f"\n{name}: {(SCENARIOS[name].__doc__ or '').strip()}".rstrip(": "))
        print(table.plain(found.of(name)))
    for name, why in found.skipped.items():
        print(f"\nnot run: {name}: {why}")
    if flags.json:
        found.write(flags.json)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench", description="Measures nonstick beside its peers.")
    made.add_argument("--quick", action="store_true", help="about a minute: less of everything")
    made.add_argument(
        "--only", metavar="SCENARIO", action="extend", nargs="+", choices=SCENARIOS, help=" ".join(SCENARIOS)
    )
    made.add_argument("--subject", metavar="NAME", action="extend", nargs="+", default=[], help="only these servers")
    made.add_argument("--seconds", metavar="S", type=float, help="of each measurement (5, quick 1.5)")
    made.add_argument("--rounds", metavar="N", type=int, help="over which the median is taken (4, quick 2)")
    made.add_argument("--json", metavar="FILE", type=Path, help="write everything there, for machines")
    return made


if __name__ == "__main__":
    sys.exit(main())
