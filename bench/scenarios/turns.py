"""A plain blocking turn: one worker, 16 connections, everybody in turn within each round."""

from __future__ import annotations

from contextlib import ExitStack

from bench import measure
from bench.competitors import PEERS
from bench.results import Numbers, Results
from bench.run import Run
from bench.subjects import Start, Subject, nonstick

SUBJECTS: dict[str, Start] = {
    "nonstick": nonstick,
    "nonstick bank": lambda: nonstick("nonstick bank", assistant="examples/bank"),
    **PEERS,
}


def turns(run: Run, results: Results) -> None:
    """One worker, 16 connections, the agent says one text again; CPU is per turn. The last column is server CPU as a
    multiple of ours."""
    with ExitStack() as stack:
        subjects = run.start_all(SUBJECTS, stack, results)
        rounds = interleaved(run, subjects)
    own = rounds.get("nonstick")
    for name, numbers in rounds.items():
        if own and name != "nonstick":
            for mine, theirs in zip(own, numbers, strict=True):
                theirs["times"] = ratio(theirs["server_us"], mine["server_us"])
        results.add("turns", name, numbers)


def interleaved(run: Run, subjects: list[Subject]) -> dict[str, list[Numbers]]:
    """A B C A B C: what disturbs the machine for a while disturbs all."""
    rounds: dict[str, list[Numbers]] = {subject.name: [] for subject in subjects}
    for number in range(run.rounds):
        for subject in subjects:
            run.say(f"round {number + 1} of {run.rounds}: {subject.name}")
            rounds[subject.name].append(measure.turns(subject, seconds=run.seconds))
    return rounds


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
