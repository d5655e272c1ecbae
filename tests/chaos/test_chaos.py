"""The chaos suite finds nothing where nothing is wrong, and each bug that is planted on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from server.chaos.mutations import MUTATIONS
from server.chaos.run import Options, chaos

ROOT = Path(__file__).resolve().parents[2]


def run(options: Options) -> tuple[int, str]:
    lines: list[str] = []
    code = chaos(options, lines.append)
    return code, "\n".join(lines)


def test_a_healthy_fleet_keeps_every_promise() -> None:
    """As an operator runs it, with every kind of fault at least once."""
    command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "chaos"]
    ended = subprocess.run(
        [*command, "--seconds", "10", "--seed", "4", "--workers", "3"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "seed 4" in ended.stdout
    assert "every promise held" in ended.stdout
    did = next(line for line in ended.stdout.splitlines() if "did" in line)
    assert len(re.findall(r"\d+ \w+", did)) >= 3, did


PLANTED = {
    "no_fence": (Options(seconds=7, seed=2, faults=("freeze",), settle_seconds=4), "session"),
    "no_dedup": (Options(seconds=2, seed=2, faults=("cut",), settle_seconds=4), "ran 2 times"),
    "lost_hand_over": (Options(seconds=2, seed=2, faults=("cut",), settle_seconds=3), "never ended"),
}


# On a machine that is busy with other things a short run may not bring about what a bug needs; a longer one does.
ROUNDS = (1, 2, 4)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_planted_bug_is_found(mutation: str) -> None:
    options, symptom = PLANTED[mutation]
    heard = []
    for times in ROUNDS:
        code, said = run(replace(options, seconds=options.seconds * times, contexts=6, mutation=mutation))
        heard.append(said)
        if code == 1 and symptom in said:
            return
    raise AssertionError("\n".join(heard))


def test_no_setting_or_variable_of_a_server_plants_a_bug() -> None:
    """Only the suite's own node imports the mutations, and only the suite starts that node."""
    importers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("server", "stores")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"chaos\.(mutations|node)\b", path.read_text()) and "mutations" not in path.name
    ]
    assert sorted(importers) == ["server/chaos/fleet.py", "server/chaos/node.py"]
