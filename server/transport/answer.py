"""An answer of known length leaves in one write: uvicorn makes one of the head and one of the body, and a system call
is the dearest single thing a plain turn does."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class _Gathered:
    """Stands in for the connection while an answer is put together."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.chunks.append(data)

    def close(self) -> None:
        self.closed = True


class WholeAnswer(RequestResponseCycle):
    """uvicorn's cycle of a request and its answer. A head that tells the body's length waits for the body."""

    # A class attribute: uvicorn makes the object, as one of its own class.
    _head: Any = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start" and _has_length(message):
            # In place of one that waits already: whoever failed before its body begins anew, with a 500.
            self._head = message
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
            return
        connection, gathered = self.transport, _Gathered()
        self.transport = gathered  # type: ignore[assignment]
        try:
            await super().send(head)
            await super().send(message)
        finally:
            self.transport = connection
            if gathered.chunks:
                connection.write(b"".join(gathered.chunks))
            if gathered.closed:
                connection.close()


def _has_length(message: Any) -> bool:
    return any(name == b"content-length" for name, _ in message.get("headers", ()))
