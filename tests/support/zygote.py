"""A process that has imported everything and forks worker processes from there: each costs a fraction of a start.

    the test ── one line of JSON and a listener ──▶ zygote ── fork ──▶ worker

`python -m tests.support.zygote DESCRIPTOR`. It ends when the test's end of the socket is closed; its workers notice
that their parent is gone and end, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop

from tests.support import node
from tests.support.agents import FOLDER_VARIABLE
from tests.support.crash import Hook, Point

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 20.0
MOST_BYTES = 64 * 1024


class Forked:
    """One worker process, forked from the zygote."""

    def __init__(self, pid: int, port: int, life: int, folder: Path) -> None:
        self.pid = pid
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self._life = life
        self.dead = asyncio.Event()
        asyncio.get_running_loop().add_reader(life, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._life)
        os.close(self._life)
        self.dead.set()

    @property
    def trace(self) -> list[str]:
        """The store's operations it called, in order."""
        path = self.folder / f"trace-{self.pid}"
        return path.read_text().split() if path.exists() else []

    @property
    def log(self) -> str:
        return (self.folder / f"log-{self.pid}").read_text(errors="replace")

    def signal(self, which: signal.Signals) -> None:
        if not self.dead.is_set():
            # It may have died a moment ago, by itself, and the news be on its way.
            with suppress(ProcessLookupError):
                os.kill(self.pid, which)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        async with asyncio.timeout(STOP_SECONDS):
            await self.dead.wait()


class Zygote:
    """The test's side."""

    def __init__(self, line: socket.socket, folder: Path) -> None:
        self._line = line
        self.folder = folder

    def fork(
        self, settings: dict[str, Any], agent: str, since: str = "admit_turn", point: Point | None = None
    ) -> Forked:
        """A worker that takes connections already; it answers them when it has started."""
        alive, life = os.pipe()
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
            plan = {
                "settings": settings,
                "agent": agent,
                "folder": str(self.folder),
                "since": since,
                "point": point.plan if point else None,
            }
            # A pipe that only the worker holds open tells its death.
            socket.send_fds(self._line, [json.dumps(plan).encode()], [listener.fileno(), life])
            os.close(life)
            pid = int(self._line.recv(32))
            return Forked(pid, listener.getsockname()[1], alive, self.folder)


@contextmanager
def zygote(folder: Path) -> Iterator[Zygote]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, (folder / "zygote.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        theirs.close()
        try:
            yield Zygote(ours, folder)
        finally:
            ours.close()
            process.wait(STOP_SECONDS)


def serve(line: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need no burial
    while True:
        raw, descriptors, _, _ = socket.recv_fds(line, MOST_BYTES, 2)
        if not raw:
            return
        zygote_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            line.close()
            run(json.loads(raw), descriptors[0], zygote_pid)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(pid).encode())


def run(plan: dict[str, Any], listener: int, parent: int) -> None:
    """The worker's whole life; it never comes back."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        folder = Path(plan["folder"])
        with (folder / f"log-{os.getpid()}").open("ab", buffering=0) as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s")
        os.environ[FOLDER_VARIABLE] = str(folder)
        point = Point(**plan["point"]) if plan["point"] else None
        Hook(point, plan["since"], folder / f"trace-{os.getpid()}").install()
        made = {"settings": plan["settings"], "agent": plan["agent"], "parent": parent, "descriptor": listener}
        uvloop.run(node.main(made))
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
