"""What operations people ask: alive, ready, and what is running here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server.protocol.errors import A2AError, Unavailable
from server.transport.calls import Calls
from server.transport.rest import refusal
from server.turns.worker import Worker
from stores.errors import StoreError


class Probes:
    """Routes that no orchestrator needs."""

    def __init__(self, calls: Calls, worker: Worker, about: Callable[[], dict[str, Any]]) -> None:
        self._calls = calls
        self._worker = worker
        self._about = about

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/status", self._for_callers(self.status)),
        ]

    async def healthz(self, _request: Request) -> Response:
        """The process answers; nothing else is asked, so that a Redis fault restarts nobody."""
        return JSONResponse({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Whether this worker should be given work."""
        if self._worker.draining:
            return JSONResponse({"status": "draining"}, 503, {"Retry-After": "1"})
        try:
            await self._worker.store.ping()
        except StoreError:
            return JSONResponse({"status": "store unavailable"}, 503, {"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    async def status(self, _request: Request) -> Response:
        """Version, agent, store and fleet."""
        store = self._worker.store
        try:
            engine = await store.engine()
            fleet = await store.fleet.workers()
        except StoreError as error:
            raise Unavailable("STORE_UNAVAILABLE", "The store can't be reached; try again shortly.") from error
        workers = [{"id": worker, **json.loads(info or "{}")} for worker, info in fleet.items()]
        return JSONResponse({**self._about(), "worker": self._worker.id, "workers": workers, "store": engine})

    def _for_callers(
        self, endpoint: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                await self._calls.caller(request.scope["headers"])
                return await endpoint(request)
            except A2AError as error:
                return refusal(error)

        return guarded
