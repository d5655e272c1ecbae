"""One server with one worker: `python -m tests.interop.node AGENT STORE_URL` prints its address when it is ready."""

from __future__ import annotations

import json
import sys

from server.app import create_app
from server.config import Flags, Plan, make_plan
from server.processes import serve


def ready(plan: Plan) -> None:
    print(json.dumps({"url": plan.settings.url}), flush=True)


if __name__ == "__main__":
    agent, store = sys.argv[1:]
    flags = Flags(agent=f"tests.interop.agent:{agent}", redis=store, workers=1, port=0)
    serve(make_plan(flags, {}), create_app, ready)
