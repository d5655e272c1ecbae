"""Log lines as people and collectors read them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from server.observe.logs import ConsoleLines, GatheredLines, JsonLines, configure
from tests.support.wait import wait_until


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("server.turns", logging.WARNING, __file__, 1, message, args, None)


def test_a_json_line_names_its_event_and_facts() -> None:
    line = json.loads(JsonLines().format(record("a2a_server.turn.lost task=%s fence=%s", "t1", "3")))
    assert (line["event"], line["task"], line["fence"], line["level"]) == ("a2a_server.turn.lost", "t1", "3", "warning")
    assert line["time"].endswith("Z")


def test_a_fact_can_not_overwrite_a_member_of_the_line() -> None:
    line = json.loads(JsonLines().format(record("a2a_server.x level=none")))
    assert line["level"] == "warning"


def test_a_console_line_holds_time_level_and_message() -> None:
    line = ConsoleLines().format(record("a2a_server.turn.lost task=%s", "t1"))
    assert "WARNING" in line
    assert line.endswith("a2a_server.turn.lost task=t1")


@pytest.mark.parametrize("style", [ConsoleLines(), JsonLines()])
def test_facts_given_beside_the_text_are_written_too(style: logging.Formatter) -> None:
    entry = record("a2a_server.message_adapter.skip_slot.invalid_value")
    entry.slot = "amount"
    line = style.format(entry)
    assert "slot=amount" in line or json.loads(line)["slot"] == "amount"


def test_a_traceback_stays_inside_its_json_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        entry = record("a2a_server.turn.fault")
        entry.exc_info = (type(error), error, error.__traceback__)
    text = JsonLines().format(entry)
    assert "\n" not in text
    assert "ValueError: broken" in json.loads(text)["exception"]


def test_the_level_decides_what_is_written(root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure("json", "warning")
    logging.getLogger("server.turns").info("a2a_server.quiet")
    logging.getLogger("server.turns").warning("a2a_server.loud")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["a2a_server.loud"]


async def test_lines_at_info_are_written_together_and_a_warning_takes_them_along(root: logging.Logger) -> None:
    stream = io.StringIO()
    handler = GatheredLines(stream)
    root.handlers[:] = [handler]
    root.setLevel("INFO")
    root.info("one")
    root.info("two")
    assert stream.getvalue() == ""
    root.warning("three")
    assert stream.getvalue() == "one\ntwo\nthree\n"
    root.info("four")
    await wait_until(lambda: stream.getvalue().endswith("four\n"))


def test_without_a_loop_no_line_waits(root: logging.Logger) -> None:
    stream = io.StringIO()
    root.handlers[:] = [GatheredLines(stream)]
    root.setLevel("INFO")
    root.info("one")
    assert stream.getvalue() == "one\n"
