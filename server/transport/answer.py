"""A head leaves in one write with the body it has, or with the first piece of it: uvicorn makes one of each, and a
system call is the dearest single thing a plain turn does."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

# Beside what ASGI knows of a head: whoever sends it has the first piece of its body at hand.
SOON = "nonstick.body_comes_soon"


class _Gathered:
    """Stands in for the connection while an answer is put together."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._chunks: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._chunks.append(data)

    def close(self) -> None:
        """At once: a request that was sent behind this one is only left alone if the connection is seen to close."""
        self.flush()
        self._connection.close()

    def flush(self) -> None:
        if self._chunks:
            self._connection.write(b"".join(self._chunks))
            self._chunks.clear()


class WholeAnswer(RequestResponseCycle):
    """uvicorn's cycle of a request and its answer. A head that tells the body's length waits for the body, and so does
    one that says its body comes SOON."""

    # A class attribute: uvicorn makes the object, as one of its own class.
    _head: Any = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start" and (message.get(SOON) or _has_length(message)):
            # In place of one that waits already: whoever failed before its body begins anew, with a 500.
            self._head = message
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        connection, gathered = self.transport, _Gathered(self.transport)
        self.transport = gathered  # type: ignore[assignment]
        try:
            await super().send(head)
            await super().send(message)
        finally:
            self.transport = connection
            gathered.flush()


def _has_length(message: Any) -> bool:
    return any(name == b"content-length" for name, _ in message.get("headers", ()))
