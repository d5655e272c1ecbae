"""The HTTP+JSON binding of 1.0: every row of the operation table as a route."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

from server.observe import metrics, traces, turnlog
from server.protocol.errors import A2AError, InternalFault, JsonInvalid, MethodUnknown
from server.protocol.negotiate import negotiate_rest
from server.protocol.operations import Operation, Route
from server.protocol.rest import rest_error, rest_params, rest_result
from server.protocol.v1_0 import V1_0_DIALECT
from server.transport.body import BodyLimits, ClientGone, Head, check_content_type, parse_json, read_body
from server.transport.calls import Calls, last_event_id
from server.transport.sse import EventStreams, Framing
from server.turns.watch import Streamed

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/a2a+json"
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Rest:
    """Makes the routes."""

    def __init__(
        self, calls: Calls, streams: EventStreams, *, limits: BodyLimits, lenient: bool, max_parts: int
    ) -> None:
        self._calls = calls
        self._streams = streams
        self._limits = limits
        self._lenient = lenient
        self._max_parts = max_parts

    def routes(self) -> list[HttpRoute]:
        """The table as routes. `/tasks/{id}` would match `/tasks/x:cancel`, so the longer ones come first."""
        rows = [(route, operation) for operation in Operation for route in operation.value.routes]
        rows.sort(key=lambda row: ":" not in row[0].path.partition("}")[2] and "{" in row[0].path)
        return [
            HttpRoute(route.path, _Endpoint(self, operation, route), methods=[route.verb]) for route, operation in rows
        ]

    async def serve(self, operation: Operation, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        head = Head(scope["headers"])
        try:
            caller = await self._calls.enter(scope["headers"])
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            version = next((value for name, value in reversed(query) if name == "A2A-Version"), None)
            negotiate_rest(head.get(b"a2a-version"), version, self._lenient)
            body = await self._body(route, head, receive)
            params = rest_params(operation, scope["path_params"], query, body)
            turnlog.dialect.set("1.0 rest")
            traces.accept(head.get(b"traceparent"))
            request = V1_0_DIALECT.decode(operation, params, max_parts=self._max_parts)
            if operation.streaming:
                resume = last_event_id(head.get(b"last-event-id"))
                with self._streams.place():
                    with traces.span(operation.span, traces.incoming.get()):
                        items = await self._calls.stream(operation, caller, request, resume)
                    frames = await self._streams.begin(items, _FRAMING)
                    await self._streams.send(frames, receive, send)
                return
            with traces.span(operation.span, traces.incoming.get()):
                result = await self._calls.unary(operation, caller, request)
            await _answer(200, rest_result(operation, result))(scope, receive, send)
        except ClientGone:
            log.debug("a2a_server.http.client_gone")
        except A2AError as error:
            await refusal(error)(scope, receive, send)
        except Exception:
            log.exception("a2a_server.http.fault operation=%s", operation.name)
            await refusal(InternalFault())(scope, receive, send)

    async def _body(self, route: Route, head: Head, receive: Receive) -> dict[str, Any] | None:
        if route.verb != "POST":
            return None
        raw = await read_body(receive, head, self._limits)
        if not raw.strip():
            # Cancel and subscribe need none.
            return {}
        check_content_type(head.get(b"content-type"))
        body = parse_json(raw, self._limits)
        if not isinstance(body, dict):
            raise JsonInvalid("The body must be a JSON object.")
        return body


class _Endpoint:
    """One route as an ASGI application, so that bodies are ours to read."""

    def __init__(self, rest: Rest, operation: Operation, route: Route) -> None:
        self._rest = rest
        self._operation = operation
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._rest.serve(self._operation, self._route, scope, receive, send)


def _event(streamed: Streamed) -> Any:
    return V1_0_DIALECT.encode_event(streamed.item, streamed.final)


_FRAMING = Framing(_event, rest_error, ids=True, named_errors=True)


def _answer(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(_ENCODER.encode(body), status, headers, MEDIA_TYPE)


def refusal(error: A2AError) -> Response:
    """An error as google.rpc has it, under its own HTTP status."""
    metrics.REFUSALS.add(error.reason)
    return _answer(error.rest_status, rest_error(error), error.headers)


async def http_error(request: HttpRequest, error: Exception) -> Response:
    """What the router itself refuses (404, 405), in a form that A2A clients can read."""
    assert isinstance(error, HTTPException)
    body = MethodUnknown(f"{request.method} {request.url.path} is not served here.")
    headers = dict(error.headers or {})
    return _answer(error.status_code, {"error": {**rest_error(body)["error"], "code": error.status_code}}, headers)
