"""Trace context: accepted with a request and kept with its task, so that whoever runs, resumes, cancels, takes over or
tells of it, on whichever worker, joins the same trace.

Spans need the extra `nonstick[otel]` and `traces_enabled`; the trace's id is in the log lines of a turn in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

# What W3C's recommendation calls version 00; the ids of all zeros are invalid.
_TRACEPARENT = re.compile(r"^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}$")
_NOTHING: AbstractContextManager[Any] = nullcontext()
# What a worker that ends gives its collector to take the last spans; one that does not answer must not hold it up.
FLUSH_SECONDS = 3.0

incoming: ContextVar[str] = ContextVar("nonstick_traceparent", default="")
"""The traceparent of the request that is being served; '' where it brought none."""

_tracer: Any = None
_provider: Any = None


def on() -> bool:
    """Whether spans are made in this process."""
    return _tracer is not None


def missing() -> str:
    """What keeps spans from being sent; '' where nothing does."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def accept(header: str | None) -> None:
    """Takes a request's traceparent, if it is one."""
    incoming.set(header if header is not None and _TRACEPARENT.match(header) else "")


def trace_id(traceparent: str) -> str:
    match = _TRACEPARENT.match(traceparent) if traceparent else None
    return match.group(1) if match else ""


def start(service: str, version: str = "", exporter: Any = None) -> None:
    """Begins to record spans in this process; without an exporter they go where the OTEL_* variables say."""
    global _tracer, _provider
    from opentelemetry import trace
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    instance = f"{socket.gethostname()}-{os.getpid()}"
    facts = {"service.name": service, "service.version": version, "service.instance.id": instance}
    # What the operator sets (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) wins.
    named = OTELResourceDetector().detect().attributes
    own = Resource.create({name: value for name, value in facts.items() if name not in named})
    _provider = TracerProvider(resource=own, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    # Agents use the global one for spans of their own, which then become children of the turn's.
    trace.set_tracer_provider(_provider)
    _tracer = _provider.get_tracer("nonstick")


async def stop() -> None:
    """Sends what is left, off the loop and for a bounded time."""
    global _tracer, _provider
    provider, _tracer, _provider = _provider, None, None
    if provider is None:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def flush() -> None:
        provider.force_flush(int(FLUSH_SECONDS * 1000))
        provider.shutdown()
        # The loop does not wait for a collector that is slow, and may have ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    # A thread of our own, as a daemon: the interpreter waits for those of the loop's executor.
    threading.Thread(target=flush, name="last spans", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FLUSH_SECONDS):
            await ended.wait()


def span(name: str, parent: str = "", asked: str = "", **attributes: str | int) -> AbstractContextManager[Any]:
    """A span of this name, below the given traceparent or the current one; costs nothing where traces are off.

    `asked` is the traceparent of the request behind it: where that is of another trace, the two are linked.
    """
    if _tracer is None:
        return _NOTHING
    from opentelemetry.trace import Link

    above = _context(parent) if parent else None
    links = [Link(_span_context(asked))] if asked and parent and trace_id(asked) != trace_id(parent) else None
    made: AbstractContextManager[Any] = _tracer.start_as_current_span(
        name, context=above, attributes=_named(attributes), links=links
    )
    return made


def past(name: str, parent: str, began_ns: int, **attributes: str | int) -> None:
    """A span of what has just ended: only its end brought to light which trace it belongs to."""
    if _tracer is not None:
        above = _context(parent) if parent else None
        _tracer.start_span(name, context=above, attributes=_named(attributes), start_time=began_ns).end()


def tell(span: Any, **attributes: str | int) -> None:
    """Adds what is known only later to an open span; `span` is None where traces are off."""
    if span is not None:
        span.set_attributes(_named(attributes))


def current() -> str:
    """The traceparent to keep with what is admitted now: the open span's, or the request's own."""
    if _tracer is None:
        return incoming.get()
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "") or incoming.get()


def _named(attributes: dict[str, str | int]) -> dict[str, str | int]:
    return {f"nonstick.{key}": value for key, value in attributes.items()}


def _context(traceparent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})


def _span_context(traceparent: str) -> Any:
    from opentelemetry import trace

    return trace.get_current_span(_context(traceparent)).get_span_context()
