"""How much a run measures, and what it says meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.children import NotStarted
from bench.results import Results
from bench.subjects import Start, Subject


@dataclass(frozen=True)
class Run:
    quick: bool = False
    seconds: float = 5.0
    rounds: int = 4
    subjects: frozenset[str] = field(default_factory=frozenset)
    """Only these; empty means all."""

    @property
    def few(self) -> int:
        """Rounds of what is not compared with peers, or takes long."""
        return max(1, self.rounds // 2)

    def say(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)

    def start_all(self, starts: Mapping[str, Start], stack: ExitStack, results: Results) -> list[Subject]:
        """Those that run here; why others do not is kept with the results."""
        running = []
        for name, start in starts.items():
            if self.subjects and name not in self.subjects:
                continue
            try:
                running.append(stack.enter_context(start()))
            except NotStarted as error:
                if name.startswith("nonstick"):
                    raise
                results.skipped[name] = str(error).strip().splitlines()[-1]
                self.say(f"{name} does not run here: {error}")
        return running
