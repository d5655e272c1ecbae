"""The bare limit, which promises nothing: parse, two round trips to Redis, answer: `bare.py SOCKET PORT`.

It says what this language, this HTTP server and this store can do at most. No validation, no dialects, no dedup, no
order, no fence, no recovery, no logs, no metrics.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import sys
import time
import uuid
from collections import deque
from typing import Any

import hiredis
import uvicorn

BEGIN = """
redis.call('SET', KEYS[1], ARGV[1], 'PX', 600000)
redis.call('HSET', KEYS[2], 'state', 'working', 'doc', ARGV[2])
redis.call('PEXPIRE', KEYS[2], 600000)
return 'ok'
"""
END = """
redis.call('HSET', KEYS[1], 'state', 'completed', 'doc', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 600000)
return 'ok'
"""
EVENT = """
redis.call('XADD', KEYS[1], 'MAXLEN', '~', 1024, '*', 'doc', ARGV[2])
redis.call('PEXPIRE', KEYS[1], 600000)
redis.call('PUBLISH', 'bare', ARGV[1] .. ' ' .. ARGV[2])
return 'ok'
"""


class Wire(asyncio.Protocol):
    """One connection for all: what a round of the loop produces is written at once, replies come in order."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self.streams: dict[bytes, asyncio.Queue[bytes]] = {}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def call(self, *command: str | bytes | int) -> asyncio.Future[Any]:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))  # type: ignore[arg-type]
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def _flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, list) and reply[0] == b"message":
                name, _, doc = reply[2].partition(b" ")
                self.streams[name].put_nowait(doc)
            else:
                self._waiting.popleft().set_result(reply)


class Bare:
    """A raw ASGI application."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._wire: Wire | None = None
        self._numbers = itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body = b""
        while True:
            event = await receive()
            body += event["body"]
            if not event["more_body"]:
                break
        asked = json.loads(body)
        message = asked["params"]["message"]
        text = message["parts"][0]["text"]
        if asked["method"] == "SendStreamingMessage":
            await self._stream(text.split(), send)
            return
        task_id = str(uuid.uuid4())
        answer = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": asked["id"],
                "result": {
                    "task": {
                        "id": task_id,
                        "contextId": task_id,
                        "status": {
                            "state": "TASK_STATE_COMPLETED",
                            "message": {
                                "messageId": task_id,
                                "role": "ROLE_AGENT",
                                "parts": [{"text": f"echo: {text}"}],
                            },
                        },
                        "history": [message],
                    }
                },
            }
        ).encode()
        assert self._wire is not None
        await self._wire.call("EVALSHA", self._begin, 2, f"m:{message['messageId']}", f"t:{task_id}", task_id, body)
        await self._wire.call("EVALSHA", self._end, 1, f"t:{task_id}", answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _stream(self, words: list[str], send: Any) -> None:
        """Each chunk goes through the log of the store and back over the one subscriber."""
        assert self._wire is not None
        name = f"s{next(self._numbers)}"
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._subscriber.streams[name.encode()] = queue
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        agent = asyncio.ensure_future(self._run(name, words))
        for _ in range(int(words[1]) + 1):
            doc = await queue.get()
            await send({"type": "http.response.body", "body": b"data: " + doc + b"\n\n", "more_body": True})
        await agent
        del self._subscriber.streams[name.encode()]
        await send({"type": "http.response.body", "body": b""})

    async def _run(self, name: str, words: list[str]) -> None:
        assert self._wire is not None
        for number in range(int(words[1])):
            text = f"{time.monotonic_ns()} " if words[0] == "pace" else f"chunk {number} "
            update = {"taskId": name, "contextId": name, "artifact": {"artifactId": "a", "parts": [{"text": text}]}}
            doc = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": update}})
            await self._wire.call("EVALSHA", self._event, 1, f"e:{name}", name, doc)
            if words[0] == "pace":
                await asyncio.sleep(int(words[2]) / 1000)
        said = {"messageId": name, "role": "ROLE_AGENT", "parts": [{"text": f"echo: {' '.join(words)}"}]}
        update = {"taskId": name, "contextId": name, "status": {"state": "TASK_STATE_COMPLETED", "message": said}}
        doc = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"statusUpdate": update}})
        await self._wire.call("EVALSHA", self._event, 1, f"e:{name}", name, doc)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        loop = asyncio.get_running_loop()
        _, self._wire = await loop.create_unix_connection(Wire, self._socket)
        _, self._subscriber = await loop.create_unix_connection(Wire, self._socket)
        await self._subscriber.call("SUBSCRIBE", "bare")
        for script in (BEGIN, END, EVENT):
            await self._wire.call("SCRIPT", "LOAD", script)
        self._begin, self._end, self._event = (_sha(script) for script in (BEGIN, END, EVENT))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _sha(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    _, store, port = sys.argv
    uvicorn.run(
        Bare(store), port=int(port), loop="uvloop", http="httptools", ws="none", log_level="warning", access_log=False
    )
