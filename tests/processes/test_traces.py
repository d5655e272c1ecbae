"""One trace for a task, whichever workers deal with it: real processes, the real exporter, a real OTLP receiver."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.conftest import Callers, quick_settings
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Ledger
from tests.support.client import Answer, Speaker
from tests.support.collector import Collector, SeenSpan
from tests.support.engines import Engine
from tests.support.fleet import Fleet, Node
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_until

WORKERS = 3


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def shared_fleet(real_engine: Engine, collector: Collector) -> Iterator[Fleet]:
    settings = quick_settings(
        real_engine,
        traces_enabled=True,
        push_notifications_enabled=True,
        push_allow_private_targets_for_tests_only=True,
        push_retry_seconds=0.1,
        drain_seconds=2,
    )
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ns-traces-") as folder:
        for name in [name for name in os.environ if name.startswith("OTEL_")]:
            patch.delenv(name)
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with running_fleet(WORKERS, settings, Path(folder)) as running:
            yield running


@pytest.fixture
def fleet(shared_fleet: Fleet) -> Fleet:
    shared_fleet.start(WORKERS)
    return shared_fleet


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


class Trace:
    """A new trace of an orchestrator's, and what arrived of it."""

    def __init__(self, collector: Collector) -> None:
        self.id = secrets.token_hex(16)
        self.header = f"00-{self.id}-{secrets.token_hex(8)}-01"
        self._collector = collector

    async def span(self, name: str, node: Node, **facts: object) -> SeenSpan:
        """Waits for a span of this trace that this node's process sent."""

        def there() -> list[SeenSpan]:
            return [
                span for span in self._collector.of(self.id, name, **facts) if span.instance.endswith(f"-{node.pid}")
            ]

        await wait_until(there, what=f"a span {name} of node {node.number} in trace {self.id}")
        return there()[0]


@pytest.fixture
def trace(collector: Collector) -> Trace:
    return Trace(collector)


async def send(speaker: Speaker, text: str, trace: Trace, **how: Any) -> Answer:
    return await speaker.call("send", speaker.send_params(text, **how), {"traceparent": trace.header})


async def test_a_cancel_sent_to_another_worker_joins_the_task_s_trace(
    fleet: Fleet, at: Callers, ledger: Ledger, trace: Trace
) -> None:
    one, other, _ = fleet.nodes
    task = (await send(at(one), "hold never", trace, wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", task=task))
    await at(other).cancel(task)

    request = await trace.span("nonstick.send_message", one)
    cancel = await trace.span("nonstick.cancel", other, task=task)
    turn = await trace.span("nonstick.turn", one, task=task)
    assert turn.facts["nonstick.state"] == "canceled"
    assert cancel.parent == turn.parent == request.id
    # The request that asked for the cancel brought no trace; its own is linked.
    assert len(cancel.links) == 1
    await trace.span("nonstick.store.admit", one)
    finish = await trace.span("nonstick.store.finish", one)
    assert finish.parent == turn.id
    assert request.service == fleet.settings["namespace"]


async def test_a_turn_that_is_taken_over_goes_on_in_the_same_trace(
    fleet: Fleet, at: Callers, ledger: Ledger, trace: Trace, collector: Collector
) -> None:
    one, *others = fleet.nodes
    task = (await send(at(one), "hold never", trace, wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", task=task))
    await trace.span("nonstick.send_message", one)
    one.kill()
    await wait_until(lambda: collector.of(trace.id, "nonstick.recovery", task=task), what="the recovery's span")

    recovery = collector.of(trace.id, "nonstick.recovery", task=task)[0]
    taker = next(node for node in others if recovery.instance.endswith(f"-{node.pid}"))
    turn = await trace.span("nonstick.turn", taker, task=task, attempt=2)
    assert recovery.facts["nonstick.how"] == "dead"
    assert recovery.facts["nonstick.former"].startswith(f"{one.pid}-")
    assert turn.facts["nonstick.state"] == "failed"


async def test_a_follow_up_on_another_worker_joins_the_task_s_trace_and_links_its_own(
    fleet: Fleet, at: Callers, trace: Trace, collector: Collector
) -> None:
    one, other, _ = fleet.nodes
    asked = (await send(at(one), "ask", trace)).task
    mine = Trace(collector)
    await send(at(other), "echo", mine, task=asked.id)

    first = await trace.span("nonstick.turn", one, task=asked.id)
    second = await trace.span("nonstick.turn", other, task=asked.id)
    assert first.facts["nonstick.state"] == "input_required"
    assert second.facts["nonstick.state"] == "completed"
    assert (first.links, second.links) == ((), (mine.id,))
    # The orchestrator finds its own request where it looks for it.
    await mine.span("nonstick.send_message", other)


async def test_a_callback_told_by_another_worker_joins_the_task_s_trace(
    fleet: Fleet, at: Callers, trace: Trace, collector: Collector, hook: Hook
) -> None:
    hook.open.clear()
    one, *others = fleet.nodes
    mine = Registrar(at(one))
    params = mine.params("echo", mine.config(hook.url))
    task = (await mine.speaker.call("send", params, {"traceparent": trace.header})).task.id
    await hook.until(1)
    one.kill()
    hook.open.set()
    await hook.until(2)
    await wait_until(lambda: collector.of(trace.id, "nonstick.push", task=task), what="the delivery's span")

    push = collector.of(trace.id, "nonstick.push", task=task)[0]
    assert any(push.instance.endswith(f"-{node.pid}") for node in others)
    assert push.facts["nonstick.verdict"] == "delivered"
    # The receiver can join, too: it is told the trace and the span of the attempt.
    assert hook.told[-1].head["traceparent"].split("-")[1:3] == [trace.id, push.id]
