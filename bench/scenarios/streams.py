"""Streams: fast ones by their number, paced ones by how late their events are, also on another worker."""

from __future__ import annotations

from contextlib import ExitStack

from bench import measure
from bench.competitors import bare, sdk_memory, sdk_postgres
from bench.results import Numbers, Results
from bench.run import Run
from bench.subjects import Start, nonstick

FAST = "chunks 50"
PACED = "pace 50 20"

# Those that lose no event; the durable peer needs half a minute for 200 streams, so a quick run goes without it.
SUBJECTS: dict[str, Start] = {
    "nonstick": nonstick,
    "a2a-sdk 1.x memory": sdk_memory,
    "a2a-sdk 1.x cluster PostgreSQL": sdk_postgres,
    "bare limit": bare,
}
SLOW = "a2a-sdk 1.x cluster PostgreSQL"


def streams(run: Run, results: Results) -> None:
    """50 chunks as fast as the agent can, on several streams at once; CPU is per event."""
    _interleaved(run, results, "streams", FAST, (1, 50) if run.quick else (1, 50, 200))


def paced(run: Run, results: Results) -> None:
    """A chunk every 20 ms on each stream: how late an event is for its reader."""
    _interleaved(run, results, "paced", PACED, (50,) if run.quick else (50, 200))


def follow(run: Run, results: Results) -> None:
    """The same streams read on the worker that runs them and on another at once; CPU is that of both workers."""
    starts: dict[str, Start] = {
        "nonstick": lambda: nonstick(replicas=2),
        SLOW: lambda: sdk_postgres(replicas=2),
    }
    _interleaved(run, results, "follow", PACED, (10,) if run.quick else (1, 10, 50, 200), starts, follow=True)


def _interleaved(
    run: Run,
    results: Results,
    scenario: str,
    text: str,
    counts: tuple[int, ...],
    starts: dict[str, Start] = SUBJECTS,
    follow: bool = False,
) -> None:
    starts = {name: start for name, start in starts.items() if not (run.quick and name == SLOW)}
    rounds: dict[str, list[Numbers]] = {}
    with ExitStack() as stack:
        subjects = run.start_all(starts, stack, results)
        for number in range(run.few):
            for count in counts:
                for subject in subjects:
                    if subject.name == SLOW and (count > 50 or (follow and count > 10)):
                        continue
                    label = f"{subject.name}, {count} stream{'s' if count > 1 else ''}"
                    run.say(f"round {number + 1}: {label}")
                    sample = measure.streams(subject, count=count, text=text, seconds=run.seconds / 2, follow=follow)
                    rounds.setdefault(label, []).append(sample)
    for label, numbers in rounds.items():
        results.add(scenario, label, numbers)
