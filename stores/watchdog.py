"""Keeps the embedded engine running for as long as somebody holds the other end of a pipe, and no longer.

A process of its own, started as `python watchdog.py` with nothing but the standard library:

    holder (master, workers) --- pipe ---> watchdog --- child ---> engine

The holders never write until the end: the last one that goes away, however it dies, closes the pipe, and that is what
ends the engine. The lock on the data folder is inherited by the engine, so that it lasts until the engine is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PING_SECONDS = 1.0
STOP_SECONDS = 10.0
# A holder that was killed may leave workers that still finish their turns.
LOCK_SECONDS = 10.0
# The first restart is immediate; then the waits double up to this, so that a folder that makes the engine crash
# neither spins the machine nor stays down for long once it is mended.
MAX_BACKOFF_SECONDS = 5.0
# An engine that ran for this long was well: its next crash counts as the first one.
WELL_SECONDS = 60.0


class NotStarted(Exception):
    """The engine can't be started; the text says why and what to do."""


def answers(address: str) -> bool:
    """Whether the engine takes commands; one that is still loading its data does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PING_SECONDS)
        try:
            probe.connect(address)
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def is_alive(pid: int) -> bool:
    if pid <= 0:  # to kill, 0 and less are groups of processes
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Watchdog:
    def __init__(self, command: list[str], address: str, folder: Path, holder: int, start_seconds: float) -> None:
        self._command = command
        self._address = address
        self._folder = folder
        self._holder = holder
        self._start_seconds = start_seconds
        self._engine: subprocess.Popen[bytes] | None = None
        self._lock = -1
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def run(self) -> int:
        try:
            self._take_lock()
            self._start()
        except NotStarted as error:
            self._stop()
            report({"problem": str(error)})
            return 1
        report({"ready": self._address, "pid": self._process.pid})
        try:
            self._watch()
        finally:
            self._stop()
        return 0

    def _watch(self) -> None:
        crashes, started = 0, time.monotonic()
        while not self._told_to_stop(timeout=None):
            if self._process.poll() is None:
                continue
            crashes = 1 if time.monotonic() - started > WELL_SECONDS else crashes + 1
            pause = min(MAX_BACKOFF_SECONDS, 0.1 * 2 ** (crashes - 1)) if crashes > 1 else 0.0
            say(f"the engine (pid {self._process.pid}) ended with {ending(self._process)}; again in {pause:g} s")
            if self._told_to_stop(timeout=pause):
                return
            started = time.monotonic()
            try:
                self._start()
                say(f"the engine runs again (pid {self._process.pid})")
            except NotStarted as error:
                say(str(error))
                # Counts as a crash in the next round, which a signal to ourselves begins.
                signal.raise_signal(signal.SIGCHLD)

    def _told_to_stop(self, timeout: float | None) -> bool:
        """Wait for news: True for the end, False when the engine may have ended or the time is over."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([sys.stdin.fileno(), self._wake], [], [], left)
            if sys.stdin.fileno() in ready:
                return True  # the pipe is closed, or its owner says so
            if self._wake in ready:
                if signal.SIGTERM in os.read(self._wake, 4096):
                    return True
                if timeout is None:
                    return False
            elif deadline is not None and time.monotonic() >= deadline:
                return False

    def _take_lock(self) -> None:
        path = self._folder / "lock"
        try:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotStarted(f"{path} can't be opened: {error.strerror}") from None
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                holder, watchdog = self._holders()
                # What was killed is about to let go: a dead holder's watchdog, a dead watchdog's engine.
                if time.monotonic() < deadline and not (is_alive(holder) and is_alive(watchdog)):
                    time.sleep(0.05)
                    continue
                raise NotStarted(
                    f"{self._folder} is in use by the server with process id {holder or 'unknown'}: stop that one, or "
                    "give this one a folder of its own with --data-dir"
                ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{self._holder} {os.getpid()}\n".encode(), 0)

    def _holders(self) -> tuple[int, int]:
        """Who has the lock: the server and its watchdog, 0 for what was not written yet."""
        numbers = [int(word) for word in os.pread(self._lock, 64, 0).split() if word.isdigit()]
        return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)

    def _start(self) -> None:
        try:
            self._engine = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._lock],
                preexec_fn=die_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise NotStarted(f"{self._command[0]} can't be started: {error.strerror}") from None
        deadline = time.monotonic() + self._start_seconds
        while not answers(self._address):
            if self._process.poll() is not None:
                raise NotStarted(f"the engine ended with {ending(self._process)} at its start.{self._last_words()}")
            if time.monotonic() > deadline:
                raise NotStarted(f"the engine did not answer within {self._start_seconds:g} s.{self._last_words()}")
            if self._told_to_stop(timeout=0.01):
                raise NotStarted("told to stop while the engine was starting")

    def _stop(self) -> None:
        if self._engine is not None and self._engine.poll() is None:
            self._engine.terminate()
            try:
                self._engine.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"the engine did not stop within {STOP_SECONDS:g} s and is killed")
                self._engine.kill()
                self._engine.wait()
        with contextlib.suppress(FileNotFoundError):
            if self._engine is not None:
                os.unlink(self._address)

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self._engine is not None
        return self._engine

    def _last_words(self) -> str:
        try:
            lines = (self._folder / "engine.log").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "".join(f"\n    {line}" for line in [line for line in lines if line.strip()][-5:])


def die_with_parent() -> None:
    """Have the kernel end the engine with its watchdog, which is the one thing that could leave it alone."""
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def ending(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def report(news: dict[str, Any]) -> None:
    """One line to whoever started us, who then stops listening."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(news).encode() + b"\n")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)


def say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"nonstick store: {text}\n".encode())


def main(argv: list[str]) -> int:
    order = json.loads(argv[0])
    return Watchdog(
        command=order["command"],
        address=order["address"],
        folder=Path(order["folder"]),
        holder=order["holder"],
        start_seconds=order["start_seconds"],
    ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
