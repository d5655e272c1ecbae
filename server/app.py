"""The composition root: everything is built here, once per worker process, and handed down."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route

from server.agents.assistant import AssistantAgent
from server.agents.base import Agent
from server.agents.load import load_agent
from server.auth.verify import build_verifier
from server.card import ShownCard
from server.config.problems import ConfigRefused, problem
from server.config.settings import Settings
from server.dialogue.settings import AssistantSettings
from server.observe import metrics, traces
from server.observe.board import Board
from server.protocol.model import Card
from server.push.build import build_pusher
from server.push.configs import MAX_CONFIGS
from server.push.pusher import Pusher
from server.transport.body import BodyLimits
from server.transport.calls import Calls
from server.transport.cards import Cards
from server.transport.jsonrpc import JsonRpc
from server.transport.metrics import Observing
from server.transport.probes import Probes
from server.transport.rest import Rest, http_error
from server.transport.sse import EventStreams
from server.turns.follow import Following
from server.turns.heart import Heart, Rhythm
from server.turns.hub import Hub
from server.turns.outbox import Bounds
from server.turns.service import Service
from server.turns.worker import Worker
from stores import Store, open_store
from stores.client import wait_ready
from stores.errors import StoreError
from stores.limits import RequestLimit
from stores.preflight import require_fit
from stores.records import Limits

log = logging.getLogger(__name__)

# How long a worker waits for its store at start; then it fails loudly and its supervisor tries again.
STORE_WAIT_SECONDS = 30.0
# After SIGTERM a balancer still sends requests until it has seen the readiness probe fail.
QUIET_SECONDS = 2.0
# A replay must find its task, also when both were stored in the same instant.
LIFETIME_MARGIN_SECONDS = 60


@dataclass(slots=True)
class Node:
    """The parts of one worker that live between its start and its end."""

    store: Store
    worker: Worker
    heart: Heart
    streams: EventStreams
    agent: Agent
    pusher: Pusher | None


def create_app(settings: Settings, agent: Agent | None = None) -> FastAPI:
    """The ASGI application of one worker. It opens nothing before its lifespan starts."""
    if settings.traces_enabled and (reason := traces.missing()):
        hint = "pip install 'nonstick[otel]', or leave traces_enabled out."
        raise ConfigRefused([problem("traces_missing", "traces_enabled", f"Spans can't be sent: {reason}.", hint)])
    answering = agent or load(settings)
    card = ShownCard(settings, answering)
    card()
    started = time.time()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        node = _build(settings, answering)
        verifier = build_verifier(settings.auth)
        calls = Calls(
            Service(node.worker, Following(node.store, node.worker.hub)),
            verifier,
            card,
            push=node.pusher.configs if node.pusher else None,
            requests=_request_limit(settings, node.store),
        )
        rpc, routes = _routes(settings, calls, node, card, started)
        app.state.endpoint = rpc.serve
        app.router.routes.extend(routes)
        observing = _observing(settings, node)
        app.router.routes.extend(observing.routes(calls))
        app.state.node = node
        app.state.drain = _drain(node)
        await _require_store(node.store)
        await verifier.start()
        node.store.signals.start()
        await answering.start()
        await node.heart.start()
        await observing.start()
        if settings.traces_enabled:
            traces.start(node.store.keys.namespace, release())
        try:
            yield
        finally:
            await observing.stop()
            node.streams.close()
            node.worker.close()
            await node.worker.stop()
            if node.pusher is not None:
                await node.pusher.stop()
            await node.heart.stop()
            await answering.stop()
            await verifier.aclose()
            await node.store.close()
            if settings.traces_enabled:
                await traces.stop()

    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_exception_handler(HTTPException, http_error)
    return app


async def _require_store(store: Store) -> None:
    """Waits for the store and sees that it is fit; what keeps this worker from starting is said in one line."""
    try:
        await wait_ready(store.client, STORE_WAIT_SECONDS)
        for finding in await require_fit(store):
            log.warning("a2a_server.store.%s %s", finding.about, finding)
    except StoreError as error:
        log.critical("a2a_server.store.unfit this worker can't start: %s", error)
        raise


def load(settings: Settings) -> Agent:
    """The agent that the settings name."""
    if settings.assistant is not None:
        return AssistantAgent(settings.assistant, assistant_settings(settings))
    if settings.agent is None:
        raise ValueError("nothing to serve was named: use --agent module:Class or --assistant DIR")
    return load_agent(settings.agent)


def assistant_settings(settings: Settings) -> AssistantSettings:
    """What the server decides for a flow assistant. An empty allowlist allows no slot; the lack of one allows all."""
    return AssistantSettings(settings.include_conversation_repair, settings.slot_allowlist)


def release() -> str:
    """The version of this package."""
    try:
        return version("nonstick")
    except PackageNotFoundError:
        return "0+unknown"


def namespace(settings: Settings, agent: Agent) -> str:
    """What all keys begin with: two fleets that share a Redis must differ in it."""
    name = agent.identity if isinstance(agent, AssistantAgent) else agent.name or type(agent).__name__
    return settings.namespace or re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._").lower()[:64] or "nonstick"


def limits(settings: Settings) -> Limits:
    """How long and how much the store keeps."""
    message_s = settings.a2a_message_cache_ttl_seconds or 0
    task_s = max(settings.task_retention_seconds, message_s) + LIFETIME_MARGIN_SECONDS
    return Limits(
        message_ms=int(message_s * 1000),
        task_ms=int(task_s * 1000),
        log_ms=int(settings.event_log_seconds * 1000),
        context_ms=int(max(settings.context_retention_seconds, task_s) * 1000),
        idle_ms=int(settings.context_idle_seconds * 1000),
        queue_limit=settings.queue_limit,
        max_contexts=settings.max_contexts,
        max_open=settings.max_open_tasks,
        caller_running=settings.caller_max_running_turns,
        caller_contexts=settings.caller_max_contexts,
        caller_tasks=settings.caller_max_stored_tasks,
        reuse=settings.message_id_reuse,
        push_configs=MAX_CONFIGS if settings.push_notifications_enabled else 0,
    )


def _build(settings: Settings, agent: Agent) -> Node:
    store = open_store(settings.store_url, namespace(settings, agent), limits(settings))
    bounds = Bounds(
        timeout_s=settings.task_timeout_seconds,
        cancel_wait_s=settings.cancel_wait_seconds,
        max_events=settings.max_events_per_task,
        max_task_bytes=settings.max_task_bytes,
        max_session_bytes=settings.max_session_bytes,
        pass_on_s=settings.drain_seconds,
    )
    worker = Worker(store, agent, Hub(settings.stream_buffer_events), bounds)
    rhythm = Rhythm(settings.heartbeat_seconds, settings.presumed_dead_seconds)
    pusher = build_pusher(settings, worker) if settings.push_notifications_enabled else None
    worker.courier = pusher
    worker.release = release()
    return Node(store, worker, Heart(worker, rhythm), _streams(settings), agent, pusher)


def _streams(settings: Settings) -> EventStreams:
    return EventStreams(settings.sse_keepalive_seconds, settings.max_streams)


def _request_limit(settings: Settings, store: Store) -> RequestLimit | None:
    most = settings.caller_max_requests_per_second
    return RequestLimit(store.client, store.keys, most) if most else None


def _observing(settings: Settings, node: Node) -> Observing:
    """The numbers of this worker, and who shows them."""
    metrics.RUNNING.ask(lambda: len(node.worker.running))
    metrics.STREAMS.ask(lambda: node.streams.open)
    board = Board(metrics.REGISTRY, f"{settings.url} {node.store.keys.namespace}")
    own = (settings.metrics_interface, settings.metrics_port) if settings.metrics_port is not None else None
    return Observing(board, node.store, release(), enabled=settings.metrics_enabled, own_port=own)


def _routes(
    settings: Settings, calls: Calls, node: Node, card: Callable[[], Card], started: float
) -> tuple[JsonRpc, list[Route]]:
    body = BodyLimits(settings.max_body_bytes, settings.max_json_depth)
    rpc = JsonRpc(calls, node.streams, limits=body, lenient=settings.lenient_version, max_parts=settings.max_parts)
    rest = Rest(calls, node.streams, limits=body, lenient=settings.lenient_version, max_parts=settings.max_parts)
    public = settings.auth is None or settings.auth.public_card

    def about() -> dict[str, Any]:
        shown = card()
        return {
            "version": release(),
            "agent": {"name": shown.name, "version": shown.version},
            "namespace": node.store.keys.namespace,
            "uptime_seconds": round(time.time() - started, 1),
            **node.agent.about(),
        }

    return rpc, [
        # Our workers give its requests to the endpoint themselves; here other verbs get the right refusal.
        Route("/", rpc, methods=["POST"]),
        *rest.routes(),
        *Cards(calls, card, public=public).routes(),
        *Probes(calls, node.worker, about).routes(),
    ]


def _drain(node: Node) -> Callable[[float], Any]:
    async def drain(seconds: float) -> None:
        """Takes no queued turn any more, finishes the running ones, then lets the streams go.

        New messages are taken for half of the time at most: a balancer that does not look at the readiness probe sends
        on, and the last turns need time, too.
        """
        worker = node.worker
        worker.draining = True
        deadline = time.monotonic() + seconds
        if not await worker.wait_idle(seconds / 2, quiet=min(QUIET_SECONDS, seconds)):
            worker.admits = False
            await worker.wait_idle(max(0.0, deadline - time.monotonic()))
        node.worker.close()
        node.streams.close()

    return drain
