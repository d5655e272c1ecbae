"""The command line as a user meets it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from server.cli import COMMANDS, parser

ROOT = Path(__file__).parents[2]
ECHO = ["--agent", "examples.echo:Echo"]


def nonstick(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


def test_it_knows_its_version() -> None:
    assert nonstick("--version").stdout.startswith("nonstick ")


@pytest.mark.parametrize("command", ["run", "check"])
def test_help_explains_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser("1").parse_args([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for flag in (
        "--agent MODULE:CLASS", "--assistant DIR", "--endpoints FILE", "--redis URL", "--workers N", "--port N",
        "--interface ADDRESS", "--ssl-certificate FILE", "--ssl-keyfile FILE", "--data-dir DIR", "--embedded",
        "--log-level",
    ):  # fmt: skip
        assert flag in shown


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("test", ["--assistant DIR", "--dialogue NAME"]),
        ("chat", ["--url URL", "--context ID", "--token TOKEN", "--api-key KEY", "--insecure"]),
        (
            "reload",
            ["--namespace NAME", "--assistant DIR", "--agent MODULE:CLASS", "--endpoints FILE", "--redis URL",
             "--embedded", "--data-dir DIR", "--timeout SECONDS"],
        ),
    ],
)  # fmt: skip
def test_help_explains_the_flags_of_the_other_commands(
    command: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser("1").parse_args([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [flag for flag in flags if flag not in shown] == []


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser("1").parse_args(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n    {name} " not in shown] == []


def test_check_prints_what_would_run_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yml"
    file.write_text("a2a_server: {description: Bank, max_contexts: 7}")

    done = nonstick("check", *ECHO, "--endpoints", str(file), "--redis", "redis://:hush@host:6379/0")

    assert (done.returncode, done.stderr) == (0, "")
    assert "redis://:***@host:6379/0" in done.stdout
    assert "* max_contexts                       7" in done.stdout
    assert "  queue_limit                        16" in done.stdout
    assert "Echo (examples.echo:Echo)" in done.stdout
    assert "hush" not in done.stdout


def test_check_prints_every_problem_and_fails(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yml"
    file.write_text("a2a_server:\n  description: x\n  max_context: 7\n  tls: {}\n")

    done = nonstick("check", *ECHO, "--endpoints", str(file), "--port", "70000")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "There are 3 problems" in done.stderr
    assert f"validation.a2a_server.unknown_key at {file}:3" in done.stderr
    assert "What to do: Did you mean max_contexts?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("examples.echo:Ecko", "it has Echo"),
        ("no.such.module:Agent", "no module 'no'"),
        ("broken:Agent", "ZeroDivisionError: division by zero"),
        ("quitting:Agent", "SystemExit"),
        ("dying:Agent", "died"),
    ],
)
def test_an_agent_that_can_not_be_loaded_is_explained(tmp_path: Path, spec: str, said: str) -> None:
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "quitting.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "dying.py").write_text("import os; os._exit(1)\n")
    folder = ROOT if spec.startswith("examples") else tmp_path

    for command in ("check", "run"):
        done = nonstick(command, "--agent", spec, "--port", "0", cwd=folder)
        assert done.returncode == 2
        assert "validation.a2a_server.agent_not_loaded at --agent" in done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        if spec.startswith("broken"):
            assert f"{tmp_path}/broken.py:2" in done.stderr


def test_the_printed_curl_line_works_when_pasted() -> None:
    command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "run", *ECHO]
    with tempfile.TemporaryDirectory(prefix="ns-") as data:
        process = subprocess.Popen(
            [*command, "--port", "0", "--data-dir", data],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=ROOT,
        )
        assert process.stdout is not None
        try:
            with bounded(process):
                line = next((line for line in process.stdout if line.startswith("curl")), "")
            assert line, "no curl line was printed"
            answers = [paste(line), paste(line)]
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
            _, errors = process.communicate()
    assert answers[0]["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answers[1] == answers[0]
    assert "Traceback" not in errors


@contextmanager
def bounded(process: subprocess.Popen[str], seconds: float = 20) -> Iterator[None]:
    """Reading lines has no timeout of its own: the end of the process ends it."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def paste(line: str) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """What a shell and curl make of the line."""
    words = shlex.split(line)
    assert words[:2] == ["curl", "-s"]
    headers = dict(words[index + 1].split(": ") for index, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1]
    answer: dict[str, dict[str, dict[str, dict[str, str]]]] = httpx.post(
        words[2], headers=headers, content=body, timeout=20
    ).json()
    return answer
