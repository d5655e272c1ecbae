"""The orchestrators' callback: a receiver on loopback that keeps what it was told, in order."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Self


class Hook:
    """Takes every POST with 200."""

    def __init__(self) -> None:
        self.told: dict[str, list[str]] = defaultdict(list)
        """The states each task's callback was told, in the order they came; artifacts and repeats are not counted."""
        self._known: set[str] = set()
        self.url = ""
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n")]
                sizes = [int(value) for name, _, value in lines if name.lower() == "content-length"]
                ids = [value.strip() for name, _, value in lines if name.lower() == "webhook-id"]
                raw = await reader.readexactly(sizes[0] if sizes else 0)
                # A worker that was frozen over a POST sends it when it wakes up; its id says that it is a repeat.
                if not self._known.issuperset(ids) or not ids:
                    self._known.update(ids)
                    self._hear(raw)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return  # the worker went, or has nothing more to tell
        finally:
            writer.close()

    def _hear(self, raw: bytes) -> None:
        [(kind, item)] = json.loads(raw).items()
        if kind in ("task", "statusUpdate"):
            task = item["id"] if kind == "task" else item["taskId"]
            self.told[task].append(item["status"]["state"].removeprefix("TASK_STATE_"))
