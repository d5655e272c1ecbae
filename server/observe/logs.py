"""Log lines: for people on a console, or one JSON object each for a collector."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Literal

from server.observe import turnlog

# Lines begin with the event's name, `a2a_server.turn.lost task=…`; collectors want the two apart.
_EVENT_PREFIX = "a2a_server."
_COUNTS = frozenset({"attempt", "round_trips", "turns"})


class JsonLines(logging.Formatter):
    """One object a line, with the event's name as a member of its own."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "pid": os.getpid(),
            "logger": record.name,
        }
        if message.startswith(_EVENT_PREFIX):
            line["event"], _, message = message.partition(" ")
            facts = dict(pair.split("=", 1) for pair in message.split() if "=" in pair)
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
        line = f"{_time(record)} {record.levelname:<7} [{os.getpid()}] {record.getMessage()}{facts}"
        if (turn := turnlog.current.get()) is not None:
            line += "" if turn.task in line else f" task={turn.task}"
            line += f" trace={turn.trace}" if turn.trace else ""
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(style: Literal["console", "json"], level: str) -> None:
    """Sends everything the process logs to standard error, in this style. Called once per process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else ConsoleLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Each of their requests would be a line at info.
    for chatty in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def _extra(record: logging.LogRecord) -> dict[str, object]:
    """The facts given to a line beside its text."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"
