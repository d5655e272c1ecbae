"""`python -m bench.load`, with its plan as the argument.

here                                    the process that measures
connect, warm up                 ->     {"warm": true}
                                 <-     a line, when it has noted what the servers used so far
load                             ->     the result, and the end
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import uvloop

from bench.load.streams import Streams
from bench.load.turns import Turns


async def turns(plan: dict[str, Any]) -> dict[str, Any]:
    load = Turns(plan)
    await load.open()
    if plan["warm_s"]:
        await load.run(plan["warm_s"])
        load.forget()
    await warm()
    cpu = time.process_time()
    elapsed = await load.run(plan["seconds"])
    cpu = time.process_time() - cpu
    load.close()
    latencies = sorted(load.latencies)
    return {
        "count": len(latencies),
        "elapsed_s": elapsed,
        "p50_ms": percentile(latencies, 0.50),
        "p99_ms": percentile(latencies, 0.99),
        "max_ms": percentile(latencies, 1.0),
        "load_cpu_s": cpu,
        "wrong": load.wrong,
    }


async def streams(plan: dict[str, Any]) -> dict[str, Any]:
    load = Streams(plan)
    await load.open()
    await load.run(0, most=2)
    load.forget()
    await warm()
    cpu = time.process_time()
    elapsed = await load.run(plan["seconds"])
    cpu = time.process_time() - cpu
    load.close()
    first, lags, far = sorted(load.first), sorted(load.lags), sorted(load.far_lags)
    return {
        "count": load.events,
        "streams": load.streams,
        "elapsed_s": elapsed,
        "first_p50_ms": percentile(first, 0.50),
        "first_p99_ms": percentile(first, 0.99),
        "lag_p50_ms": percentile(lags, 0.50),
        "lag_p99_ms": percentile(lags, 0.99),
        "far_lag_p50_ms": percentile(far, 0.50),
        "far_lag_p99_ms": percentile(far, 0.99),
        "load_cpu_s": cpu,
        "wrong": load.wrong,
    }


async def warm() -> None:
    print(json.dumps({"warm": True}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def percentile(ordered: list[int], share: float) -> float | None:
    """Of nanoseconds, in milliseconds."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6


KINDS = {"turns": turns, "streams": streams}

if __name__ == "__main__":
    gc.disable()  # a pause of the load would look like one of the server
    plan = json.loads(sys.argv[1])
    print(json.dumps(uvloop.run(KINDS[plan["kind"]](plan))), flush=True)
