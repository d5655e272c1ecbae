"""The JSON-RPC binding: `POST /`, both dialects.

Order of checks: credentials, body, envelope, version and method, params; then the operation itself.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from server.auth.caller import Caller
from server.observe import metrics, traces, turnlog
from server.protocol.dialect import Dialect
from server.protocol.errors import A2AError, EnvelopeInvalid, InternalFault, ParamsInvalid
from server.protocol.negotiate import dialect_for_error, negotiate
from server.protocol.operations import Operation
from server.protocol.text import encode
from server.transport.body import BodyLimits, ClientGone, Head, check_content_type, parse_json
from server.transport.calls import Calls, last_event_id
from server.transport.exchange import AsgiExchange, Exchange
from server.transport.sse import EventStreams, Framing
from server.turns.watch import Streamed

log = logging.getLogger(__name__)

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
JSON_TYPE = b"application/json"


@dataclass(slots=True)
class _Call:
    """One request as far as it is understood; errors are rendered with what is known."""

    head: Head
    query: str | None = None
    id: str | int | None = None
    method: str | None = None
    dialect: Dialect | None = None

    def error_dialect(self) -> Dialect:
        return self.dialect or dialect_for_error(self.method, self.head.get(b"a2a-version"), self.query)


class JsonRpc:
    """The ASGI endpoint."""

    def __init__(
        self, calls: Calls, streams: EventStreams, *, limits: BodyLimits, lenient: bool, max_parts: int
    ) -> None:
        self._calls = calls
        self._streams = streams
        self._limits = limits
        self._lenient = lenient
        self._max_parts = max_parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(AsgiExchange(scope, receive, send))

    async def serve(self, exchange: Exchange) -> None:
        call = _Call(Head(exchange.headers))
        if exchange.query:
            values = parse_qs(exchange.query.decode("latin-1")).get("A2A-Version")
            call.query = values[-1] if values else None
        try:
            caller = await self._calls.enter(exchange.headers)
            operation, request = await self._understand(call, exchange)
            if operation.streaming:
                with self._streams.place():
                    await self._stream(call, caller, operation, request, exchange)
                return
            assert call.dialect is not None
            with traces.span(operation.span, traces.incoming.get()):
                result = await self._calls.unary(operation, caller, request)
            answer = {"jsonrpc": "2.0", "id": call.id, "result": call.dialect.encode_result(operation, result)}
            await exchange.answer(200, JSON_TYPE, encode(answer))
        except ClientGone:
            log.debug("a2a_server.http.client_gone")
        except A2AError as error:
            await self._refuse(call, error, exchange)
        except Exception:
            log.exception("a2a_server.http.fault method=%s", call.method)
            await self._refuse(call, InternalFault(), exchange)

    async def _understand(self, call: _Call, exchange: Exchange) -> tuple[Operation, Any]:
        check_content_type(call.head.get(b"content-type"))
        envelope = parse_json(await exchange.read(self._limits), self._limits)
        params = _open(envelope, call)
        assert call.method is not None
        call.dialect, operation = negotiate(call.method, call.head.get(b"a2a-version"), call.query, self._lenient)
        turnlog.dialect.set(call.dialect.version)
        traces.accept(call.head.get(b"traceparent"))
        return operation, call.dialect.decode(operation, params, max_parts=self._max_parts)

    async def _stream(
        self, call: _Call, caller: Caller, operation: Operation, request: Any, exchange: Exchange
    ) -> None:
        dialect = call.dialect
        assert dialect is not None
        resume = call.head.get(b"last-event-id")
        with traces.span(operation.span, traces.incoming.get()):
            items = await self._calls.stream(operation, caller, request, last_event_id(resume))

        def render(streamed: Streamed) -> Any:
            result = dialect.encode_event(streamed.item, streamed.final)
            return {"jsonrpc": "2.0", "id": call.id, "result": result}

        def fail(error: A2AError) -> Any:
            return {"jsonrpc": "2.0", "id": call.id, "error": dialect.rpc_error(error)}

        # A 0.3 client that did not ask for ids breaks on them: a comment after an id reaches it as an empty event.
        ids = dialect.version != "0.3" or resume is not None
        framing = Framing(render, fail, ids=ids, named_errors=False)
        frames = await self._streams.begin(items, framing)
        await self._streams.send(frames, exchange.receive, exchange.send)

    async def _refuse(self, call: _Call, error: A2AError, exchange: Exchange) -> None:
        metrics.REFUSALS.add(error.reason)
        dialect = call.error_dialect()
        body = {"jsonrpc": "2.0", "id": call.id, "error": dialect.rpc_error(error)}
        more = [(name.lower().encode(), value.encode("latin-1")) for name, value in (error.headers or {}).items()]
        operation = dialect.methods.get(call.method or "")
        if error.rpc_status == 200 and operation and operation.streaming and dialect.version == "0.3":
            # A 0.3 client loses the code of an error that does not come as an event of the stream it asked for.
            frame = f"data: {_ENCODER.encode(body)}\n\n".encode()
            await exchange.answer(200, b"text/event-stream; charset=utf-8", frame, more)
            return
        await exchange.answer(error.rpc_status, JSON_TYPE, encode(body), more)


def _open(envelope: Any, call: _Call) -> dict[str, Any]:
    """Fills the call from the envelope and gives its params."""
    if isinstance(envelope, list):
        raise EnvelopeInvalid("Batches are not supported; send one request at a time.")
    if not isinstance(envelope, dict):
        raise EnvelopeInvalid("A JSON-RPC request is an object.")
    request_id = envelope.get("id")
    if request_id is not None and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        raise EnvelopeInvalid("id must be a string or an integer.")
    call.id = request_id
    method = envelope.get("method")
    if isinstance(method, str):
        call.method = method
    if envelope.get("jsonrpc") != "2.0":
        raise EnvelopeInvalid('jsonrpc must be "2.0".')
    if not isinstance(method, str) or not method:
        raise EnvelopeInvalid("method must be a string.")
    if "id" not in envelope:
        raise EnvelopeInvalid("id is missing: no A2A method is a notification.")
    params = envelope.get("params")
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise ParamsInvalid("params must be an object.")
    return params
