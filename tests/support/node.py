"""One worker of a test's fleet as a process of its own: `python -m tests.support.node`.

The listening socket is inherited, so that the test knows its port before the process runs; the settings and the agent's
name come as JSON in an environment variable.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from typing import Any

import uvicorn
import uvloop

from server.app import create_app
from server.config.settings import Settings
from server.worker import DrainingServer
from tests.support.agents import AGENTS

PLAN_VARIABLE = "NONSTICK_TEST_NODE"


async def main(plan: dict[str, Any]) -> None:
    settings = Settings(**plan["settings"])
    # Without the name of an agent it serves what its settings name: an assistant.
    app = create_app(settings, AGENTS[plan["agent"]]() if plan["agent"] else None)
    config = uvicorn.Config(
        app, lifespan="on", log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=3
    )
    # It also ends when the test's process is gone, whatever ended that.
    server = DrainingServer(config, settings.drain_seconds, plan["parent"])
    listener = socket.socket(fileno=plan["descriptor"])
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(levelname)s %(message)s")
    uvloop.run(main(json.loads(os.environ[PLAN_VARIABLE])))  # the loop of production
