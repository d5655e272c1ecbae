"""The link between the tests and a client in another environment: one JSON document per line, both ways.

    test    {"id": 1, "do": "stream", "url": …, "binding": …, …}
    driver  {"id": 1, "event": …}          any number of them
    driver  {"id": 1, "result": …}         or {"id": 1, "error": {"type": …, "message": …, …}}

Calls run at once, so one can cancel what another waits for. `{"do": "leave", "call": 1}` ends a call as a client does
that goes away. The driver ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Emit = Callable[[Any], None]
Operation = Callable[[dict[str, Any], Emit], Awaitable[Any]]


def drive(operations: Mapping[str, Operation], describe: Callable[[Exception], dict[str, Any]]) -> None:
    """Answers calls until there are no more; `describe` adds what is special about an error of this client."""
    asyncio.run(_drive(operations, describe))


async def _drive(operations: Mapping[str, Operation], describe: Callable[[Exception], dict[str, Any]]) -> None:
    calls: dict[int, asyncio.Task[None]] = {}

    async def perform(asked: dict[str, Any]) -> None:
        number = asked.pop("id")
        try:
            result = await operations[asked.pop("do")](asked, lambda event: _say({"id": number, "event": event}))
        except asyncio.CancelledError:
            _say({"id": number, "result": "left"})
            raise
        except Exception as error:
            about = {"type": type(error).__name__, "message": str(error), **describe(error)}
            _say({"id": number, "error": about})
        else:
            _say({"id": number, "result": result})

    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        if asked["do"] == "leave":
            calls[asked["call"]].cancel()
            continue
        calls[asked["id"]] = asyncio.create_task(perform(asked))
    for call in calls.values():
        call.cancel()
    await asyncio.gather(*calls.values(), return_exceptions=True)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
