"""Bugs planted on purpose: what the suite must find. Only its own node entry can plant one, in its own process."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import stores.turns
from stores.scripts import Script

# name -> (module variable of the script, what is there, what is put in its place)
MUTATIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "no_fence": (
        ("_APPEND", "if run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[4] ~= mid then", "if false then"),
        ("_FINISH", "if run[1] ~= task or run[2] ~= fence or run[3] ~= worker or run[5] ~= mid then", "if false then"),
    ),
    "no_dedup": (("_ADMIT", "if known[1] and (known[3] ~= 'ended' or known[4] == token) then", "if false then"),),
    "lost_hand_over": (("_FINISH", "answer[3] = start_next(mark)", "answer[3] = nil"),),
}


def plant(name: str) -> None:
    """Replaces scripts of this process by broken ones."""
    for variable, there, instead in MUTATIONS[name]:
        script: Script = getattr(stores.turns, variable)
        if there not in script.body:
            raise LookupError(f"{script.name} no longer has the line that {name} breaks: {there}")
        body = script.body.replace(there, instead)
        sha = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()
        setattr(stores.turns, variable, replace(script, body=body, sha=sha))
