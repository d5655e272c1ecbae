"""`python -m bench.instructions`: how many instructions of the CPU a plain turn takes in the server.

Times move with whatever else a machine does; this moves by half a percent, so that it tells whether a change of a few
microseconds is one. The way of a turn is run in one process over a real Valkey, from the bytes of a request to those of
its answer, without the system calls of its connection and without looking for garbage. Valgrind counts (its cachegrind,
from Debian's package valgrind); what a start costs is taken off by running it twice.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from uvicorn.server import ServerState

from bench.load.connection import post
from bench.load.talk import TALKS, Talk
from bench.subjects import valkey
from server.app import create_app
from server.config.settings import Settings
from server.observe import logs
from server.transport.head import bounded_http

FEW, MANY = 500, 2000
PATIENCE_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--assistant", default="", metavar="DIR", help="examples/bank instead of the echo agent")
    parser.add_argument("--turns", type=int, default=0, help="run so many turns, and count nothing")
    flags = parser.parse_args()
    if flags.turns:
        logs.configure("console", "info")
        gc.disable()
        uvloop.run(run(flags.turns, flags.assistant))
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind counts the instructions, and is not installed: apt-get install valgrind", file=sys.stderr)
        return 2
    few, many = (count(turns, flags.assistant) for turns in (FEW, MANY))
    print(f"{(many - few) / (MANY - FEW):,.0f} instructions a turn")
    return 0


def count(turns: int, assistant: str) -> int:
    """All that a process takes for so many turns."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = [sys.executable, "-m", "bench.instructions", "--turns", str(turns), "--assistant", assistant]
    print(f"counting {turns} turns", file=sys.stderr)
    done = subprocess.run([*valgrind, *command], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"the turns did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


async def run(turns: int, assistant: str) -> None:
    with valkey() as (_, url):
        settings = Settings(
            redis_url=url,
            agent=None if assistant else "bench.agents:Echo",
            assistant=Path(assistant) if assistant else None,
            # What is done by the clock would be counted by how slow this run is.
            metrics_enabled=False,
            heartbeat_seconds=20,
            presumed_dead_seconds=100,
        )
        app = create_app(settings)
        http = bounded_http(settings.max_header_bytes)
        config = uvicorn.Config(app, http=http, ws="none", lifespan="on", access_log=False, log_config=None)
        config.load()
        lifespan = config.lifespan_class(config)
        await lifespan.startup()
        if lifespan.should_exit:
            raise RuntimeError("the application did not start")
        await _converse(config, TALKS["bank" if assistant else "echo"]({"dialect": "1.0"}), turns)
        await lifespan.shutdown()


async def _converse(config: uvicorn.Config, talk: Talk, turns: int) -> None:
    """One turn after the other, over one connection."""
    make: Any = config.http_protocol_class
    protocol = make(config=config, server_state=ServerState(), app_state={})
    line = Line()
    protocol.connection_made(line)
    for _ in range(turns):
        body = json.dumps(talk.request(), separators=(",", ":")).encode()
        line.answer = asyncio.get_running_loop().create_future()
        protocol.data_received(post("127.0.0.1", 5005, "/", body, {"a2a-version": "1.0"}))
        head, _, answer = (await asyncio.wait_for(line.answer, PATIENCE_SECONDS)).partition(b"\r\n\r\n")
        talk.check(int(head.split()[1]), answer)
    protocol.connection_lost(None)


class Line(asyncio.Transport):
    """A connection whose other end is in this process. A whole answer is one write."""

    answer: asyncio.Future[bytes]

    def write(self, data: Any) -> None:
        self.answer.set_result(bytes(data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
