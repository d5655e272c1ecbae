"""The processes of one server: the listener, the embedded engine, and a master over its workers.

    bind the port -> start the engine -> fork the workers -> … -> workers drain -> stop the engine

The application is made in each worker and never here: what it opens must not be shared by a fork.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from server.config import ConfigRefused, Plan, Settings
from server.config.problems import ConfigProblem, problem
from server.worker import MARGIN_SECONDS, DrainingWorker
from stores.embedded import EmbeddedEngine, EmbeddedEngineError

# Longer than the idle time of common proxies (60 s), so that they close an idle connection first and never send a
# request into one that is just being closed.
KEEPALIVE_SECONDS = 75
# A worker whose event loop stands still for this long is killed and replaced.
STUCK_SECONDS = 60

Factory = Callable[[Settings], Any]


def serve(plan: Plan, factory: Factory, on_ready: Callable[[Plan], None] = lambda plan: None) -> None:
    """Run until told to stop, then exit; raises `ConfigRefused` when the port or the engine can't be had.

    `factory` makes the ASGI application, once in each worker. `on_ready` is called with what really runs: the port
    that was taken and the store that was started.
    """
    listener = bind(plan.interface, plan.port)
    plan = plan.listening_on(listener.getsockname()[1])
    engine = EmbeddedEngine(plan.data_dir) if plan.data_dir is not None else None
    try:
        if engine is not None:
            plan = plan.with_store(start_engine(engine))
        Fleet(plan, factory, on_ready, listener.detach(), engine).run()
    finally:
        listener.close()
        if engine is not None:
            engine.stop()  # only the master's call does something: workers come by here, too


def bind(interface: str, port: int) -> socket.socket:
    """Take the port, or say who else may have it and what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            interface or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        hint = "Give an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them."
        raise _refused("interface_invalid", "--interface", f"{interface}: {error.strerror}.", hint) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Two sockets can be bound to one port with SO_REUSEADDR; only one of them can listen.
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigRefused([_bind_problem(error, interface, port)]) from None
    return listener


def start_engine(engine: EmbeddedEngine) -> str:
    try:
        return engine.start()
    except EmbeddedEngineError as error:
        hint = "See above; `--redis redis://host:6379/0` uses a Redis of your own instead."
        raise _refused("store_not_started", "--data-dir", f"The embedded engine: {error}.", hint) from None


class Fleet(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's application: its settings, and how each worker gets the ASGI application."""

    def __init__(
        self,
        plan: Plan,
        factory: Factory,
        on_ready: Callable[[Plan], None],
        listener: int,
        engine: EmbeddedEngine | None,
    ) -> None:
        self.plan = plan
        self.engine = engine
        self._factory = factory
        self._on_ready = on_ready
        self._listener = listener
        # Shared with the workers by the fork. They must know at their end whether the listener outlives them.
        self._ending = mmap.mmap(-1, 1)
        super().__init__()

    def is_ending(self) -> bool:
        """Whether the whole server ends, and not one worker of it."""
        return self._ending[0] != 0

    def end(self) -> None:
        self._ending[0] = 1

    def load_config(self) -> None:
        plan, settings = self.plan, self.plan.settings
        for name, value in {
            "bind": f"fd://{self._listener}",
            "workers": plan.workers,
            "worker_class": DrainingWorker,
            "timeout": STUCK_SECONDS,
            "graceful_timeout": math.ceil(settings.drain_seconds + MARGIN_SECONDS),
            "keepalive": KEEPALIVE_SECONDS,
            "forwarded_allow_ips": ",".join(settings.forwarded_allow_ips),
            "certfile": str(plan.ssl_certificate) if plan.ssl_certificate else None,
            "keyfile": str(plan.ssl_keyfile) if plan.ssl_keyfile else None,
            "proc_name": "nonstick",
            # The master's own news are for those who look into it.
            "loglevel": "warning" if settings.log_level == "info" else settings.log_level,
            "control_socket_disable": True,
            "when_ready": lambda arbiter: self._on_ready(self.plan),
        }.items():
            if name in self.cfg.settings:  # an older gunicorn has no control socket to switch off
                self.cfg.set(name, value)

    def load(self) -> Any:
        try:
            return self._factory(self.plan.settings)
        except ConfigRefused as refused:
            print(refused, file=sys.stderr, flush=True)
            sys.exit(Arbiter.APP_LOAD_ERROR)

    def run(self) -> None:
        Master(self).run()


class Master(Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's arbiter, which also looks after the engine's watchdog once a second."""

    _gave_up = False

    def stop(self, graceful: bool = True) -> None:
        self.app.end()
        super().stop(graceful)

    def reap_workers(self) -> None:
        try:
            super().reap_workers()
        except HaltServer:
            # The first worker that can't start ends the server; a second one must not break off that end.
            if not self.app.is_ending():
                raise

    def manage_workers(self) -> None:
        self._look_after_the_engine()
        super().manage_workers()

    def _look_after_the_engine(self) -> None:
        engine: EmbeddedEngine | None = self.app.engine
        if engine is None or self._gave_up or engine.is_watched():
            return
        self.log.error("the watchdog of the embedded engine is gone: starting it again")
        try:
            engine.stop()
            engine.start()
        except EmbeddedEngineError as error:
            self._gave_up = True  # the workers answer 503 if it is really gone; trying for ever would stall the master
            self.log.critical("the embedded engine is not watched any more: %s", error)


def _bind_problem(error: OSError, interface: str, port: int) -> ConfigProblem:
    match error.errno:
        case errno.EADDRINUSE:
            message = f"Port {port} on {interface} is taken by another program."
            hint = f"Stop it (`lsof -i :{port}` shows it), or choose another port with --port."
        case errno.EACCES | errno.EPERM:
            message = f"Port {port} on {interface} may not be used by this user."
            hint = "Choose a port above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return problem(
                "interface_invalid",
                "--interface",
                f"{interface} is not an address of this machine.",
                "Give one of its own, or 0.0.0.0 for all of them.",
            )
        case _:
            message = f"Port {port} on {interface} can't be used: {os.strerror(error.errno or 0)}."
            hint = "Choose another with --port or --interface."
    return problem("port_unavailable", "--port", message, hint)


def _refused(code: str, where: str, message: str, hint: str) -> ConfigRefused:
    return ConfigRefused([problem(code, where, message, hint)])
