"""Trace context: accepted with a request and kept with its message, so that whoever runs, takes over or ends the turn,
on whichever worker, joins the same trace.

Spans need the extra `nonstick[otel]` and `traces_enabled`; the trace's id is in the log lines of a turn in any case.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

# What W3C's recommendation calls version 00; the ids of all zeros are invalid.
_TRACEPARENT = re.compile(r"^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}$")
_NOTHING: AbstractContextManager[Any] = nullcontext()

incoming: ContextVar[str] = ContextVar("nonstick_traceparent", default="")
"""The traceparent of the request that is being served; '' where it brought none."""

_tracer: Any = None
_provider: Any = None


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
    match = _TRACEPARENT.match(traceparent)
    return match.group(1) if match else ""


def start(service: str, exporter: Any = None) -> None:
    """Begins to record spans in this process; without an exporter they go where the OTEL_* variables say."""
    global _tracer, _provider
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if exporter is None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    _provider = TracerProvider(resource=Resource.create({"service.name": service}))
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    # Agents use the global one for spans of their own, which then become children of the turn's.
    trace.set_tracer_provider(_provider)
    _tracer = _provider.get_tracer("nonstick")


def stop() -> None:
    """Sends what is left."""
    global _tracer, _provider
    if _provider is not None:
        _provider.shutdown()
    _tracer = _provider = None


def span(name: str, parent: str = "", **attributes: str | int) -> AbstractContextManager[Any]:
    """A span of this name, below the given traceparent or the current one; costs nothing where traces are off."""
    if _tracer is None:
        return _NOTHING
    context = None
    if parent:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract({"traceparent": parent})
    named = {f"nonstick.{key}": value for key, value in attributes.items()}
    made: AbstractContextManager[Any] = _tracer.start_as_current_span(name, context=context, attributes=named)
    return made


def current() -> str:
    """The traceparent to keep with what is admitted now: the open span's, or the request's own."""
    if _tracer is None:
        return incoming.get()
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "") or incoming.get()
