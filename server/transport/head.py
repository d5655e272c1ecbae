"""The head of a request (its first line and headers), within a bound of size and time.

uvicorn bounds it only with h11; with httptools a client could send headers without end, or never end them, and
gunicorn's own limits are those of a parser that is not in use here.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from server.transport.answer import WholeAnswer
from server.transport.exchange import DirectExchange, Endpoint

MAX_HEAD_BYTES = 32 * 1024
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which answers 431 to a head beyond the bound, and closes on one that does not end."""

    max_head_bytes: ClassVar[int] = MAX_HEAD_BYTES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        # Received since the parser last made something of it: a header that never ends shows in nothing else.
        self._silent_bytes = 0
        self._in_head = True
        self._patience: asyncio.TimerHandle | None = None
        # Asked for only now: the application makes it when it starts.
        self._endpoint: Endpoint | None = getattr(getattr(self.config.app, "state", None), "endpoint", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._silent_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._patience is None:
            # Only for a head that comes in pieces; nearly all come whole.
            self._be_patient()
        if self._silent_bytes > self.max_head_bytes and not self.transport.is_closing():
            self._head_bytes = self._silent_bytes
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes <= self.max_head_bytes:
            super().send_400_response(msg)
            return
        body = f"The request's head is larger than {self.max_head_bytes} bytes (max_header_bytes).\n".encode()
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(TOO_LARGE + head + body)
        self.transport.close()

    # --- what the parser calls -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._in_head = True
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)  # and ": ", and the line's end
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._silent_bytes = 0
        self._in_head = False
        self._stop_waiting()
        if self._endpoint is not None and self.url == b"/" and self.parser.get_method() == b"POST":
            self._exchange(self._endpoint)
        else:
            self._cycle()

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        super().on_body(body)

    # --- helpers ---------------------------------------------------------------------------------------------

    def _exchange(self, endpoint: Endpoint) -> None:
        """What uvicorn does with a request, without making a scope of it."""
        former, exchange = self.cycle, DirectExchange(self, endpoint)
        self.cycle = exchange
        if former is None or former.response_complete:
            self._start_asgi_task(exchange, exchange.serve)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, exchange.serve))

    def _cycle(self) -> None:
        """A request for the application."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers
        super().on_headers_complete()
        if self.cycle is not None:
            # uvicorn has no seam for it; its task has not run yet.
            self.cycle.__class__ = WholeAnswer

    def _count(self, size: int) -> None:
        self._silent_bytes = 0
        self._head_bytes += size
        if self._head_bytes > self.max_head_bytes:
            # Ends the parsing; what is answered then is said above.
            raise ValueError("the head is too large")

    def _be_patient(self) -> None:
        self._patience = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing():
            self.transport.close()


def bounded_http(max_head_bytes: int) -> type[BoundedHttp]:
    """The protocol with this bound; uvicorn makes one object of it per connection and gives it nothing of ours."""
    return type("BoundedHttp", (BoundedHttp,), {"max_head_bytes": max_head_bytes})
