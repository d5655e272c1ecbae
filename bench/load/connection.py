"""One keep-alive HTTP connection, made for little CPU per request: the server is what is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools

OnPiece = Callable[["Connection", bytes], None]
OnAnswer = Callable[["Connection"], None]


class Connection(asyncio.Protocol):
    """Calls back when an answer is complete; with `on_piece` also for each piece of its body as it comes."""

    def __init__(self, on_answer: OnAnswer, on_lost: OnAnswer, on_piece: OnPiece | None = None) -> None:
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._on_piece = on_piece
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self.status = 0
        self.busy = False

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self.busy = True
        self._pieces.clear()
        self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # --- the parser's side ---

    def on_body(self, body: bytes) -> None:
        if self._on_piece is None:
            self._pieces.append(body)
        else:
            self._on_piece(self, body)

    def on_message_complete(self) -> None:
        self.status = self._parser.get_status_code()
        # A parser can't be used again after a response that ended without a length.
        self._parser = httptools.HttpResponseParser(self)
        self.busy = False
        self._on_answer(self)


def post(host: str, port: int, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """The request's bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
        f"{lines}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
