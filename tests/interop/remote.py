"""The clients as the tests see them: processes in other environments, driven line by line."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.interop.fleet import ROOT

WAIT_SECONDS = 15.0
Shown: TypeAlias = dict[str, Any]


class ClientFailed(Exception):
    """The client raised; `about` has the type of its exception, its message and what else it says."""

    def __init__(self, about: Shown) -> None:
        super().__init__(f"{about['type']}: {about['message']}")
        self.about = about


class Call:
    """One call that a client makes, while it goes on."""

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number
        self.lines: queue.SimpleQueue[Shown] = queue.SimpleQueue()
        self._end: Shown | None = None

    def event(self, seconds: float = WAIT_SECONDS) -> Shown | None:
        """The next event; None after the last."""
        if self._end is not None:
            return None
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"the client said nothing for {seconds} s:\n{self._driver.log}") from None
        if "event" in line:
            event: Shown = line["event"]
            return event
        self._end = line
        return None

    def events(self, seconds: float = WAIT_SECONDS) -> list[Shown]:
        """All events that are left."""
        return list(iter(lambda: self.event(seconds), None))

    def until(self, kind: str, seconds: float = WAIT_SECONDS) -> Shown:
        """The next event of this kind."""
        while (event := self.event(seconds)) is not None:
            if event["kind"] == kind:
                return event
        raise AssertionError(f"no {kind} came: {self._end}")

    def result(self, seconds: float = WAIT_SECONDS) -> Any:
        self.events(seconds)
        assert self._end is not None
        if "error" in self._end:
            raise ClientFailed(self._end["error"])
        return self._end["result"]

    def leave(self) -> None:
        """The client goes away in the middle."""
        self._driver.say({"do": "leave", "call": self._number})
        self.result()


class Driver:
    """One process with a client library in it."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._numbers = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self, asked: Shown) -> Call:
        with self._lock:
            number = next(self._numbers)
            call = self._calls[number] = Call(self, number)
        self.say({**asked, "id": number})
        return call

    def say(self, line: Shown) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def join(self) -> None:
        self._reader.join(WAIT_SECONDS)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                call = self._calls[answer.pop("id")]
            call.lines.put(answer)


@contextmanager
def running_driver(python: Path, module: str, log: Path) -> Iterator[Driver]:
    # Whatever proxy is configured, loopback is reached directly.
    environ = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
    command = [str(python), "-m", f"tests.interop.drivers.{module}"]
    pipe = subprocess.PIPE
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, cwd=ROOT, env=environ, stdin=pipe, stdout=pipe, stderr=stderr, text=True) as process,
    ):
        driver = Driver(process, log)
        try:
            yield driver
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            driver.join()


@dataclass(frozen=True, slots=True)
class Client:
    """One client, pointed at one server."""

    driver: Driver
    binding: str
    url: str

    def start(self, do: str, **args: Any) -> Call:
        return self.driver.start({"do": do, "url": self.url, "binding": self.binding, **args})

    def do(self, do: str, **args: Any) -> Any:
        return self.start(do, **args).result()

    def send(self, text: str, **args: Any) -> Shown:
        """The answer to a message, waited for without a stream."""
        answer: Shown = self.do("send", text=text, **{"message_id": new_id(), **args})
        return answer

    def stream(self, text: str, **args: Any) -> Call:
        return self.start("stream", text=text, **{"message_id": new_id(), **args})

    def get(self, task_id: str, **args: Any) -> Shown:
        task: Shown = self.do("get", task_id=task_id, **args)
        return task


@dataclass(frozen=True, slots=True)
class Sdk:
    """A client library over one binding: `a` calls one server, `b` the other."""

    name: str
    a: Client
    b: Client

    @property
    def old(self) -> bool:
        """Whether it speaks 0.3."""
        return self.name.endswith("0.3")


def new_id() -> str:
    return str(uuid.uuid4())
