"""`nonstick run`: check everything, then serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.commands.fit import look_at_store
from server.commands.probe import prepare
from server.commands.show import banner, complain
from server.config import ConfigRefused, Flags, Plan, Settings


def run(flags: Flags, environ: Mapping[str, str], version: str) -> int:
    # gunicorn and uvicorn are slow to import, and the other commands do without them.
    from server.processes import serve

    try:
        plan, agent = prepare(flags, environ)
        # Said here in a sentence; a worker that finds it later can only fail to start. Its warnings are the workers'.
        look_at_store(plan)

        def on_ready(running: Plan) -> None:
            # The plan still knows the store by its folder, which says more than a socket's path.
            print(banner(running, agent, version), flush=True)

        serve(plan, application, on_ready)
    except ConfigRefused as refused:
        return complain(refused)
    return 0


def application(settings: Settings) -> Any:
    """Called in each worker: the application and what it imports belong there."""
    from server.app import create_app
    from server.observe.logs import configure

    configure(settings.log_format, settings.log_level)
    return create_app(settings)
