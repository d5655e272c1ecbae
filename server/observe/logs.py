"""Log lines: for people on a console, or one JSON object each for a collector."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TextIO

from server.observe import turnlog

# Lines begin with the event's name, `a2a_server.turn.lost task=…`; collectors want the two apart.
_EVENT_PREFIX = "a2a_server."
# How long a line at info may wait for others.
GATHER_SECONDS = 0.05
_COUNTS = frozenset({"attempt", "round_trips", "turns"})


class JsonLines(logging.Formatter):
    """One object a line, with the event's name as a member of its own."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "pid": record.process,
            "logger": record.name,
        }
        if message.startswith(_EVENT_PREFIX):
            event, _, message = message.partition(" ")
            line["event"] = event.removesuffix(":")
            facts = dict(pair.split("=", 1) for pair in message.split() if "=" in pair)
            if "message" in facts:
                # That name is the line's own text.
                facts["message_id"] = facts.pop("message")
            line.update({name: _number(name, value) for name, value in facts.items() if name not in line})
        line["message"] = message
        if (turn := turnlog.current.get()) is not None:
            # Whoever logs during a turn, an agent too: the line can be found by the task.
            line.setdefault("task", turn.task)
            if turn.trace:
                line.setdefault("trace", turn.trace)
        line.update({name: value for name, value in _extra(record).items() if name not in line})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _number(name: str, value: str) -> str | int:
    """Counts and times as numbers, so that a collector can compare them; ids stay as they are."""
    return int(value) if (name.endswith("_ms") or name in _COUNTS) and value.isdigit() else value


class ConsoleLines(logging.Formatter):
    """Time, level, process, message."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={value}" for name, value in _extra(record).items())
        line = f"{_time(record)} {record.levelname:<7} [{record.process}] {record.getMessage()}{facts}"
        if (turn := turnlog.current.get()) is not None:
            line += "" if turn.task in line else f" task={turn.task}"
            line += f" trace={turn.trace}" if turn.trace else ""
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class GatheredLines(logging.StreamHandler[TextIO]):
    """Writes what a running event loop logs a few lines at a time, since a write for each is a tenth of a turn.
    From a warning on, and without a loop, nothing waits: what an operator looks for is there before anything ends."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING:
                self.flush()
            elif len(self._lines) == 1:
                self._flush_soon()
        except Exception:
            self.handleError(record)

    def _flush_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            loop.call_later(GATHER_SECONDS, self.flush)

    def flush(self) -> None:
        with self.lock or nullcontext():
            lines, self._lines = self._lines, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()


def configure(style: Literal["console", "json"], level: str) -> None:
    """Sends everything the process logs to standard error, in this style. Called once per process."""
    handler = GatheredLines(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else ConsoleLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Nobody reads these of a record, and each line would pay for them.
    logging.logThreads = logging.logMultiprocessing = False
    # Each of their requests would be a line at info.
    for chatty in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}

_PLAIN = len(vars(logging.makeLogRecord({})))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    """The facts given to a line beside its text."""
    if len(vars(record)) == _PLAIN:
        return {}
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _time(record: logging.LogRecord) -> str:
    return f"{_to_the_second(int(record.created))}.{int(record.msecs):03d}Z"


@lru_cache(maxsize=4)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
