"""One request and its answer, for an endpoint that needs no routing, middleware or messages of ASGI between it and the
parser: those cost a sixth of a plain turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from server.transport.answer import WholeAnswer
from server.transport.body import BodyLimits, Head, check_size, read_body

Headers = list[tuple[bytes, bytes]]
More = Iterable[tuple[bytes, bytes]]


class Exchange(Protocol):
    """What an endpoint sees of a request. It gives one answer, or sends a stream in ASGI's messages."""

    headers: Headers
    query: bytes

    def receive(self) -> Awaitable[Any]: ...

    def send(self, message: Any, /) -> Awaitable[None]: ...

    async def read(self, limits: BodyLimits) -> bytes:
        """The whole body, or BodyTooLarge as soon as that is known."""

    async def answer(self, status: int, kind: bytes, body: bytes, more: More = ()) -> None:
        """The one answer; `kind` is its content type, `more` are further headers."""


Endpoint = Callable[[Exchange], Awaitable[None]]

# All that uvicorn's cycle looks at when it sends.
_SCOPE: Any = {"type": "http", "method": "POST"}


class AsgiExchange:
    """Over any server of ASGI."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers: Headers = scope["headers"]
        self.query: bytes = scope["query_string"]
        self.receive = receive
        self.send = send

    async def read(self, limits: BodyLimits) -> bytes:
        return await read_body(self.receive, Head(self.headers), limits)

    async def answer(self, status: int, kind: bytes, body: bytes, more: More = ()) -> None:
        await _answer(self.send, status, kind, body, more)


class DirectExchange(WholeAnswer):
    """Over uvicorn's protocol, where it stands for the protocol's own cycle of a request and its answer."""

    # What each of uvicorn's cycles begins with.
    query = b""
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding = None
    expected_content_length = 0

    def __init__(self, protocol: Any, endpoint: Endpoint) -> None:
        """`protocol` has just read the head of a request."""
        self.headers: Headers = protocol.headers
        self.scope = _SCOPE
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.logger = protocol.logger
        self.default_headers = protocol.server_state.default_headers
        self.on_response = protocol.on_response_complete
        self.keep_alive = protocol.parser.get_http_version() != "1.0" and protocol.parser.should_keep_alive()
        self.waiting_for_100_continue = protocol.expect_100_continue
        self.message_event = asyncio.Event()
        self.body = bytearray()
        self._endpoint = endpoint

    async def serve(self, _scope: Any, _receive: Any, _send: Any) -> None:
        """What uvicorn runs, as if it were an application."""
        await self._endpoint(self)

    async def read(self, limits: BodyLimits) -> bytes:
        if self.more_body or self.disconnected:
            receive: Any = self.receive
            return await read_body(receive, Head(self.headers), limits)
        check_size(len(self.body), limits)
        return bytes(self.body)

    async def answer(self, status: int, kind: bytes, body: bytes, more: More = ()) -> None:
        if more or not self.keep_alive or self.flow.write_paused or self.disconnected or self._says_goodbye():
            await _answer(self.send, status, kind, body, more)
            return
        head = [STATUS_LINE[status], *[b"%b: %b\r\n" % header for header in self.default_headers]]
        lengths = b"content-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
        self.response_started = self.response_complete = True
        self.transport.write(b"".join([*head, lengths, body]))
        self.message_event.set()
        self.on_response()

    def _says_goodbye(self) -> bool:
        """Whether this worker closes its connections with their next answers."""
        return b"connection" in dict(self.default_headers)


async def _answer(send: Send, status: int, kind: bytes, body: bytes, more: More) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
