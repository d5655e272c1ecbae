"""Small servers on 127.0.0.1 that answer, or misbehave, as a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False

    def encoded(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any


Handler = Callable[[Request], Answer]


@dataclass
class Fake:
    url: str
    requests: list[Request] = field(default_factory=list)


def completion(text: str) -> Answer:
    """What an OpenAI-compatible endpoint answers."""
    return Answer({"choices": [{"message": {"role": "assistant", "content": text}}]})


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Fake]:
    """An HTTP server for the length of a test."""
    fake = Fake("")

    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await _one(reader, writer, handler, fake)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            connections.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fake.url = f"http://127.0.0.1:{port}"
    try:
        yield fake
    finally:
        server.close()
        # A connection that was just accepted becomes a task of ours only a few rounds of the loop later.
        for _ in range(5):
            await asyncio.sleep(0)
        # a slow answer may still be on its way to a client that has long gone
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, fake: Fake) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    request = Request(first.split()[1], headers, json.loads(content) if content else None)
    fake.requests.append(request)
    answer = handler(request)
    await asyncio.sleep(answer.delay)
    if answer.hang_up:
        return
    body = answer.encoded()
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    writer.write(
        f"HTTP/1.1 {answer.status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{extra}\r\n".encode() + body
    )
    await writer.drain()
