"""One worker of a chaos fleet as a process of its own: `python -m server.chaos.node`.

The listening socket is inherited, so that its port is known before it runs; everything else comes as JSON in an
environment variable. It ends when the process that started it does.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from pathlib import Path

import uvicorn
import uvloop

from server.app import create_app
from server.chaos.agent import ChaosAgent
from server.chaos.mutations import plant
from server.config.settings import Settings
from server.worker import DrainingServer

PLAN_VARIABLE = "NONSTICK_CHAOS_NODE"


async def main() -> None:
    plan = json.loads(os.environ[PLAN_VARIABLE])
    if plan["mutation"]:
        plant(plan["mutation"])
    settings = Settings(**plan["settings"])
    app = create_app(settings, ChaosAgent(Path(plan["folder"])))
    config = uvicorn.Config(
        app, lifespan="on", log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=3
    )
    server = DrainingServer(config, settings.drain_seconds, plan["parent"])
    await server.serve(sockets=[socket.socket(fileno=plan["descriptor"])])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s")
    uvloop.run(main())  # the loop of production
