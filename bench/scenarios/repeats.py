"""What costs a round trip and no turn: replays, refusals, reads of a log."""

from __future__ import annotations

from typing import Any

from bench import measure
from bench.client import Caller
from bench.load.talk import send
from bench.results import Numbers, Results
from bench.run import Run
from bench.subjects import Subject, nonstick

LOG_EVENTS = 1000
BEGINNING = "0-0"


def repeats(run: Run, results: Results) -> None:
    """A message sent again: replayed when its turn has ended, 409 while it runs; beside a plain turn."""
    rounds: dict[str, list[Numbers]] = {}
    with nonstick() as subject:
        caller = Caller(subject)
        for number in range(run.few):
            run.say(f"round {number + 1} of {run.few}")
            ended = _ended(caller, "hello")
            running = caller.begin("hold 300")
            for name, known, status in (("replay", ended, 200), ("409 storm", running, 409)):
                same = {"talk": "same", "request": known["request"], "task": known["task"]["id"], "status": status}
                rounds.setdefault(name, []).append(measure.turns(subject, seconds=run.seconds / 2, **same))
            caller.call("CancelTask", id=running["task"]["id"])
            rounds.setdefault("plain turn", []).append(measure.turns(subject, seconds=run.seconds / 2))
        caller.close()
    for name, numbers in rounds.items():
        results.add("repeats", name, numbers)


def log(run: Run, results: Results) -> None:
    """The log of a closed task with 1,000 events, read from its beginning by 4 subscribers; CPU is per event."""
    with nonstick(replicas=2) as subject:
        caller = Caller(subject)
        task = _ended(caller, f"chunks {LOG_EVENTS}")["task"]["id"]
        caller.close()
        plan = {"talk": "log", "task": task, "events": LOG_EVENTS, "headers": {"last-event-id": BEGINNING}}
        for name, number in (("on its own worker", 0), ("on another worker", 1)):
            run.say(name)
            one = Subject(name, [subject.ports[number]], subject.servers, subject.stores)
            samples = [measure.turns(one, seconds=run.seconds / 2, connections=4, **plan) for _ in range(run.few)]
            results.add("log", name, [_per_event(sample) for sample in samples])


def _per_event(numbers: Numbers) -> Numbers:
    whole = LOG_EVENTS + 1
    rate, server, store = numbers.pop("turns_per_s"), numbers["server_us"], numbers["store_us"]
    assert rate is not None
    assert server is not None
    return {
        **numbers,
        "events_per_s": rate * whole,
        "server_us": server / whole,
        "store_us": None if store is None else store / whole,
    }


def _ended(caller: Caller, text: str) -> dict[str, dict[str, Any]]:
    asked = send("1.0", text)
    return {"request": asked, "task": caller.task(asked)}
