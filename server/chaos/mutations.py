"""Bugs planted on purpose: what the suite must find. Only its own node entry can plant one, in its own process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from stores import scripts
from stores.scripts import Argument, Script

# name -> (script, what is there, what is put in its place)
MUTATIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "no_fence": (
        ("append_events", "run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[4] ~= mid", "false"),
        ("finish_turn", "run[1] == task and run[2] == fence and run[3] == worker and run[5] == mid", "true"),
    ),
    "no_dedup": (
        ("admit_turn", "(run and facts[5] == mid) or redis.call('EXISTS', ", "false and redis.call('EXISTS', "),
    ),
    "lost_hand_over": (("finish_turn", "answer[3] = start_next(mark)", "answer[3] = nil"),),
}


def plant(mutation: str) -> None:
    """From here on this process loads broken scripts."""
    broken = {script: (there, instead) for script, there, instead in MUTATIONS[mutation]}
    load = scripts.load

    def load_broken(name: str, constants: Mapping[str, Argument] | None = None) -> Script:
        script = load(name, constants)
        if name not in broken:
            return script
        there, instead = broken[name]
        if there not in script.body:
            raise LookupError(f"{name} no longer has the line that {mutation} breaks: {there}")
        body = script.body.replace(there, instead)
        return replace(script, body=body, sha=hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest())

    scripts.load = load_broken
