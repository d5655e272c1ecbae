"""A receiver of OTLP over HTTP: takes what the real exporters of other processes post, and reads the protobuf."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """One span as it arrived, with the process that sent it."""

    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    facts: dict[str, Any]
    service: str
    instance: str
    seconds: float


class Collector:
    """Listens on a loopback port; `spans` grows as they come in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[SeenSpan] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def spans(self) -> list[SeenSpan]:
        with self._lock:
            return list(self._spans)

    def of(self, trace: str, name: str | None = None, **facts: Any) -> list[SeenSpan]:
        """The spans of a trace with this name and these of our attributes."""
        wanted = {f"nonstick.{key}": value for key, value in facts.items()}
        return [
            span
            for span in self.spans
            if span.trace == trace and name in (None, span.name) and wanted.items() <= span.facts.items()
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _take(self, raw: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(raw)
        found: list[SeenSpan] = []
        for group in request.resource_spans:
            resource = {fact.key: fact.value.string_value for fact in group.resource.attributes}
            for span in (span for scope in group.scope_spans for span in scope.spans):
                found.append(
                    SeenSpan(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        links=tuple(link.trace_id.hex() for link in span.links),
                        facts={fact.key: _value(fact.value) for fact in span.attributes},
                        service=resource["service.name"],
                        instance=resource["service.instance.id"],
                        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    )
                )
        with self._lock:
            self._spans += found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                fit = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
                if fit:
                    collector._take(gzip.decompress(raw) if self.headers["Content-Encoding"] == "gzip" else raw)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200 if fit else 400)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Tests say what they saw themselves."""

        return Handler


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
