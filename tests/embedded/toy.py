"""A server of real processes around a toy application, for tests that look at the processes alone.

`python -m tests.embedded.toy FOLDER FLAG…` takes the flags of `nonstick run` that the tests need, prints one line of
JSON when it is ready, and holds a GET of /hold until FOLDER/release exists.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.config import ConfigRefused, Flags, Plan, Settings, make_plan
from server.processes import serve


@dataclass
class State:
    folder: Path
    running: int = 0
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    drain: Callable[[float], Awaitable[None]] | None = None

    async def finish(self, seconds: float) -> None:
        self.draining = True
        (self.folder / f"drained-{os.getpid()}").write_text(str(seconds))
        if (self.folder / "break").exists():
            raise RuntimeError("the toy is broken")
        if self.running:
            await self.idle.wait()


class Toy:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self.state = State(folder)
        self.settings = settings

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self.state.drain = self.state.finish  # as a real application, which has nothing to drain before
            for _ in range(2):
                step = (await receive())["type"]
                await send({"type": f"{step}.complete"})
                (self.state.folder / f"{step.rpartition('.')[2]}-{os.getpid()}").touch()
            return
        if scope["path"] == "/hold":
            await self._hold()
        answer = {
            "pid": os.getpid(),
            "draining": self.state.draining,
            "scheme": scope["scheme"],
            "store": self.settings.redis_url,
        }
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _hold(self) -> None:
        self.state.running += 1
        (self.state.folder / "held").touch()
        try:
            while not (self.state.folder / "release").exists():  # noqa: ASYNC110  # another process makes it
                await asyncio.sleep(0.02)
        finally:
            self.state.running -= 1
            self.state.idle.set()


def main(folder: Path, flags: dict[str, Any]) -> None:
    master = os.getpid()
    paths = {"endpoints", "data_dir", "ssl_certificate", "ssl_keyfile"}
    given: dict[str, Any] = {name: Path(value) if name in paths else value for name, value in flags.items()}
    plan = make_plan(Flags(agent="toy:Toy", **given), {})

    def factory(settings: Settings) -> Toy:
        if (folder / "refuse").exists():
            raise RuntimeError("the toy can't be made")
        assert os.getpid() != master, "the application must be made in a worker"
        return Toy(folder, settings)

    def ready(plan: Plan) -> None:
        print(json.dumps({"port": plan.port, "url": plan.settings.url, "store": plan.settings.redis_url}), flush=True)

    serve(plan, factory, ready)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), json.loads(sys.argv[2]))
    except ConfigRefused as refused:
        sys.exit(str(refused))
