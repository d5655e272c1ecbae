"""A virtual environment for each official client, made once and kept in `.venvs`."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".venvs"
# Two environments are made by whoever comes first; everybody else waits for that.
INSTALL_SECONDS = 240.0

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "a2a-1": ("a2a-sdk[http-server]>=1.3,<2", "httpx"),
    "a2a-03": ("a2a-sdk>=0.3.26,<0.4", "httpx"),
}


def environment(name: str) -> Path:
    """The Python of the environment. Where it can't be made the test is skipped, but on CI it fails."""
    folder = FOLDER / name
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".ready"
        content = "\n".join((sys.version, *REQUIREMENTS[name]))
        if not stamp.exists() or stamp.read_text() != content:
            _make(folder, REQUIREMENTS[name])
            stamp.write_text(content)
    return folder / "bin" / "python"


def _make(folder: Path, requirements: tuple[str, ...]) -> None:
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *requirements])
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.output or b"").decode(errors="replace")[-2000:]
        message = f"{folder.name} could not be made, is there a network? {error}\n{said}"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


def _run(command: list[str]) -> None:
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=INSTALL_SECONDS / 2,
        check=True,
    )
