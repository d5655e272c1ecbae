"""One trace for a message, whoever runs its turn; and ids in every line that is logged during it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from server.app import create_app
from server.config.problems import ConfigRefused
from server.config.settings import Settings
from server.observe import traces, turnlog
from server.observe.logs import ConsoleLines, JsonLines
from server.turns.record import Asked, dump_asked, load_asked, trace_of
from tests.http.conftest import serving
from tests.support.agents import Puppet
from tests.support.client import Speaker
from tests.support.engines import Engine
from tests.support.wait import wait_for_state, wait_until

ONE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TWO = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.mark.parametrize(
    ("header", "kept"),
    [(ONE, ONE), (None, ""), ("nonsense", ""), (ONE.upper(), ""), (f"00-{'0' * 32}-b7ad6b7169203331-01", "")],
)
def test_only_a_valid_traceparent_is_accepted(header: str | None, kept: str) -> None:
    traces.accept(header)
    assert traces.current() == kept


def test_the_traceparent_is_kept_with_what_a_turn_was_asked() -> None:
    for asked in (Asked("cancel", None, {"a": "b"}, ONE), Asked("cancel", None, {"a": "b"})):
        text = dump_asked(asked)
        assert load_asked(text) == asked
        assert trace_of(text) == asked.trace
    assert traces.trace_id(ONE) == "0af7651916cd43dd8448eb211c80319c"


def test_every_line_of_a_turn_carries_its_ids() -> None:
    record = logging.makeLogRecord({"msg": "an agent's own words", "levelname": "INFO", "name": "mine"})
    turnlog.current.set(turnlog.TurnIds("task-7", "trace-7"))
    try:
        line = json.loads(JsonLines().format(record))
        shown = ConsoleLines().format(record)
    finally:
        turnlog.current.set(None)
    assert (line["task"], line["trace"], line["message"]) == ("task-7", "trace-7", "an agent's own words")
    assert shown.endswith("an agent's own words task=task-7 trace=trace-7")
    assert "task" not in json.loads(JsonLines().format(record))


def test_a_collector_gets_the_facts_of_a_turn_as_values_of_their_own() -> None:
    text = "a2a_server.turn.ended task=7 state=completed duration_ms=12 attempt=1 caller=123456 message=ab12"
    record = logging.makeLogRecord({"msg": text, "levelname": "INFO", "name": "server.observe.turnlog"})
    line = json.loads(JsonLines().format(record))
    wanted = {"event": "a2a_server.turn.ended", "task": "7", "duration_ms": 12, "attempt": 1, "caller": "123456"}
    assert {**wanted, "message_id": "ab12"}.items() <= line.items()
    warning = logging.makeLogRecord({"msg": "a2a_server.push.not_encrypted: set keys", "levelname": "WARNING"})
    told = json.loads(JsonLines().format(warning))
    assert (told["event"], told["message"]) == ("a2a_server.push.not_encrypted", "set keys")


@pytest.fixture
async def spans() -> AsyncIterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    traces.start("test", exporter=exporter)
    yield exporter
    await traces.stop()


def named(exporter: InMemorySpanExporter, name: str) -> list[Any]:
    assert traces._provider is not None
    traces._provider.force_flush()
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def test_a_turn_that_waited_joins_the_trace_of_its_own_message(
    spans: InMemorySpanExporter, real_engine: Engine, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    settings = Settings(redis_url=real_engine.url, namespace=f"o{os.urandom(3).hex()}")
    agent = Puppet(tmp_path)
    with serving(settings, agent) as one, serving(settings, Puppet(tmp_path)) as other:
        first = Speaker(http, one.url, "1.0")
        held = asyncio.create_task(_send(first, "hold gate", ONE))
        await wait_until(lambda: agent.ledger.notes("start"), what="the turn's start")
        waiting = (await _send(Speaker(http, other.url, "1.0"), "echo", TWO, wait=False)).task.id
        agent.ledger.open("gate")
        await held
        await wait_for_state([first], waiting, "completed")
        await wait_until(lambda: len(named(spans, "nonstick.turn")) == 2, what="both turns' spans")

    turns = {
        span.attributes["nonstick.task"]: f"{span.context.trace_id:032x}" for span in named(spans, "nonstick.turn")
    }
    assert turns[waiting] == traces.trace_id(TWO)
    assert set(turns.values()) == {traces.trace_id(ONE), traces.trace_id(TWO)}
    # The turn's own steps are below it, and it is below the request that asked for it.
    sends = {span.context.span_id for span in named(spans, "nonstick.send_message")}
    assert {span.parent.span_id for span in named(spans, "nonstick.turn")} <= sends
    ran = {span.context.span_id for span in named(spans, "nonstick.turn")}
    assert {span.parent.span_id for span in named(spans, "nonstick.store.finish")} == ran


async def _send(speaker: Speaker, text: str, trace: str, *, wait: bool = True) -> Any:
    return await speaker.call("send", speaker.send_params(text, context="c", wait=wait), {"traceparent": trace})


async def test_a_collector_that_does_not_answer_holds_no_worker_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, gate = threading.Event(), threading.Event()

    class Stuck(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            asked.set()
            gate.wait(20)
            return super().export(spans)

    monkeypatch.setattr(traces, "FLUSH_SECONDS", 0.2)
    traces.start("test", exporter=Stuck())
    with traces.span("nonstick.turn"):
        pass
    try:
        await asyncio.wait_for(traces.stop(), 10)
        assert asked.is_set()
        assert not traces.on()
    finally:
        gate.set()


def test_spans_without_their_packages_refuse_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(traces, "missing", lambda: "No module named 'opentelemetry.exporter'")
    with pytest.raises(ConfigRefused, match=r"traces_missing.*(?s:.*)nonstick\[otel\]"):
        create_app(Settings(traces_enabled=True), Puppet(tmp_path))
