"""A virtual environment for each peer, made at its first use and kept in `.venvs`."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

from bench.children import ROOT, NotStarted

FOLDER = ROOT / ".venvs"
INSTALL_SECONDS = 300.0

# All of them get the loop and the parser that nonstick runs on.
_FAST = ("uvicorn>=0.34", "uvloop>=0.21", "httptools>=0.6.3")
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "bench-sdk1": ("a2a-sdk[http-server,sqlite,postgresql]>=1.3,<2", *_FAST),
    # Its streams queue was made for this one, and does not import on 1.x.
    "bench-a2a-redis": ("a2a-redis>=0.2.1,<0.3", "a2a-sdk[http-server]==0.3.0", "hiredis>=3", *_FAST),
}
_VERSIONS = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
)


def environment(name: str) -> str:
    """The environment's Python; raises NotStarted where it can't be made."""
    folder = FOLDER / name
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".ready"
        content = "\n".join((sys.version, *REQUIREMENTS[name]))
        if not stamp.exists() or stamp.read_text() != content:
            _make(folder, REQUIREMENTS[name])
            stamp.write_text(content)
    return str(folder / "bin" / "python")


def versions(name: str) -> dict[str, str]:
    """What is installed in it."""
    said = subprocess.run([environment(name), "-c", _VERSIONS], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    found: dict[str, str] = json.loads(said)
    return found


def _make(folder: Path, requirements: tuple[str, ...]) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *requirements]):
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_SECONDS,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = (error.output or b"").decode(errors="replace")[-2000:]
            raise NotStarted(f"{folder.name} could not be made, is there a network? {said}") from None
