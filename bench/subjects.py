"""What is measured: servers that are running, and the processes that make them up."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.children import Child, free_port
from bench.usage import cpu_ns, memory_bytes
from stores.embedded import KEEPING, server_binary


@dataclass(frozen=True)
class Subject:
    """One server, or several over one store."""

    name: str
    ports: list[int]
    servers: list[Child]
    stores: list[Child] = field(default_factory=list)
    dialect: str = "1.0"
    path: str = "/"
    talk: str = "echo"
    streams: bool = True
    store_url: str = ""

    def cpu_ns(self) -> tuple[int, int]:
        """So far: of the servers, of the stores."""
        return cpu_ns(_pids(self.servers)), cpu_ns(_pids(self.stores))

    def memory_bytes(self) -> tuple[int, int]:
        return memory_bytes(_pids(self.servers)), memory_bytes(_pids(self.stores))


Start = Callable[[], AbstractContextManager[Subject]]


@contextmanager
def valkey() -> Iterator[tuple[Child, str]]:
    """A Valkey set up as the embedded one is, and its URL. Not the embedded one itself: its CPU is wanted apart."""
    # A short path: a Unix socket's may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="nb-") as name:
        folder = Path(name)
        options = {
            "dir": name,
            "port": "0",
            "unixsocket": str(folder / "s"),
            **KEEPING,
        }
        words = [word for option, value in options.items() for word in (f"--{option}", value)]
        child = Child([str(server_binary()), *words], folder / "log")
        try:
            yield child, f"unix://{folder / 's'}"
        finally:
            child.kill()


@contextmanager
def nonstick(
    name: str = "nonstick", *, assistant: str = "", replicas: int = 1, workers: int = 1, settings: str = ""
) -> Iterator[Subject]:
    """`nonstick run` as an operator starts it, so many times over one store."""
    what = ["--assistant", assistant] if assistant else ["--agent", "bench.agents:Echo"]
    with ExitStack() as stack:
        engine, url = stack.enter_context(valkey())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nb-")))
        if settings:
            endpoints = folder / "endpoints.yml"
            endpoints.write_text(f"a2a_server:\n  description: bench\n{settings}")
            what += ["--endpoints", str(endpoints)]
        ports, servers = [], []
        for number in range(replicas):
            port = free_port()
            command = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "run"]
            command += [*what, "--workers", str(workers), "--port", str(port), "--redis", url]
            child = Child(command, folder / f"{number}.log")
            stack.callback(child.kill)
            ports.append(port)
            servers.append(child)
        for port, child in zip(ports, servers, strict=True):
            child.wait_port(port)
            child.wait_idle(1 + workers)  # their master is one, too
        yield Subject(name, ports, servers, [engine], talk="bank" if assistant else "echo", store_url=url)


def _pids(children: list[Child]) -> list[int]:
    return [pid for child in children for pid in child.pids]
