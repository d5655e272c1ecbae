"""This process as a member of the fleet: its incarnation, the turns it runs, and the cancels it hears."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from server.agents.base import Agent
from server.observe import metrics, traces
from server.observe.turnlog import TurnLog
from server.turns.courier import Courier
from server.turns.hub import Hub
from server.turns.outbox import Bounds
from server.turns.passing import Passing
from server.turns.record import Opening, trace_of
from server.turns.running import RunningTurn
from stores import Store
from stores.keys import DeliveryRef
from stores.records import Ticket

log = logging.getLogger(__name__)

# A cancel can be heard before the admission it is about has been answered. It is remembered for so long.
EARLY_CANCEL_SECONDS = 10.0


class Worker:
    """Runs tickets. Tasks are owned here: nothing it starts is left behind when it stops."""

    def __init__(self, store: Store, agent: Agent, hub: Hub, bounds: Bounds) -> None:
        self.id = _incarnation()
        self.store = store
        self.agent = agent
        self.hub = hub
        self.bounds = bounds
        self.draining = False
        self.courier: Courier | None = None
        """Who tells callbacks; None where push notifications are off."""
        self.admits = True
        """Whether messages are accepted here. Not any more in the second half of a drain, so that it has an end under a
        balancer that goes on sending; what it sends is answered 503, and any other worker takes it."""
        self.release = ""
        """The version of this software, for who watches a rolling upgrade."""
        self.loaded: dict[str, str] = {}
        """Which wish for a reload this worker has followed, and what went wrong with it."""
        self.closing = asyncio.Event()
        self._last_start = 0.0
        self.running: dict[str, RunningTurn] = {}
        self.admitting: dict[str, int] = {}
        """How many admissions of each task were sent and not answered yet. Several messages can name one task, and the
        answer to one says nothing of the others."""
        self.faulted: set[str] = set()
        """Tasks whose turn began here and broke off by a fault of ours."""
        self.passing = Passing(store, bounds.pass_on_s)
        self._callers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._early: dict[str, float] = {}

    @property
    def info(self) -> str:
        """What the fleet is told of this worker, as JSON."""
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "turns": len(self.running),
                "draining": self.draining,
                "loaded": self.loaded,
                "assistant": self.agent.fingerprint,
                "release": self.release,
            }
        )

    @property
    def channel(self) -> str:
        return self.store.keys.worker_channel + self.id

    def start_turn(
        self,
        ticket: Ticket,
        opening: Opening | None = None,
        *,
        shown: bool = True,
        fresh: bool = False,
        watched: bool = False,
    ) -> RunningTurn:
        """Begins to run a ticket, in a task of its own: the turn outlives whoever asked for it."""
        turn = RunningTurn(
            ticket,
            opening,
            agent=self.agent,
            store=self.store,
            hub=self.hub,
            bounds=self.bounds,
            shown=shown,
            fresh=fresh,
            watched=watched,
            take_next=self._takes_next,
        )
        self.running[ticket.task_id] = turn
        if self.closing.is_set():
            turn.leave()
        self._last_start = time.monotonic()
        if ticket.delivery:
            self.deliver(DeliveryRef(ticket.context.caller, ticket.task_id), ticket.delivery)
        if self._early and self._early.pop(_signal(ticket.task_id, ticket.fence), None) is not None:
            turn.cancel("requested")
        task = asyncio.get_running_loop().create_task(self._run(turn), name=f"turn {ticket.task_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return turn

    async def _run(self, turn: RunningTurn) -> None:
        following: Ticket | None = None
        trace, asked = turn.trace, trace_of(turn.ticket.input)
        told = TurnLog(turn.ticket, self.id, traces.trace_id(trace))
        try:
            wanted = self.agent.elsewhere(turn.ticket.session)
            if wanted and await self.passing.pass_on(turn.ticket, wanted):
                turn.hand_on()
                return
            with traces.span(
                "nonstick.turn", trace, asked, task=turn.ticket.task_id, attempt=turn.ticket.attempt, worker=self.id
            ) as span:
                following = await turn.run()
                traces.tell(span, state=turn.came_to)
        except Exception:
            # A fault of ours: the turn is left to recovery, which ends it truthfully.
            self.faulted.add(turn.ticket.task_id)
            log.exception("a2a_server.turn.fault task=%s", turn.ticket.task_id)
        finally:
            if self.running.get(turn.ticket.task_id) is turn:
                del self.running[turn.ticket.task_id]
            told.ended(turn.came_to, turn.round_trips)
            if following is not None:
                told.forget()
                self.start_turn(following)

    def deliver(self, ref: DeliveryRef, fence: str) -> None:
        """The task's callbacks are this worker's to serve, where a fence came with the store's answer."""
        if fence and self.courier is not None:
            self.courier.deliver(ref, fence)

    def _takes_next(self) -> bool:
        return not self.draining

    def hear(self, word: str) -> None:
        """A message on this worker's channel."""
        kind, _, rest = word.partition(":")
        if kind == "push" and self.courier is not None:
            self.courier.look(rest)
        if kind == "drain":
            self.end()
        if kind != "cancel":
            return
        task_id, _, fence = rest.partition(":")
        turn = self.running.get(task_id)
        if turn is not None and turn.ticket.fence == fence:
            turn.cancel("requested")
            return
        now = time.monotonic()
        self._early = {key: until for key, until in self._early.items() if until > now}
        self._early[_signal(task_id, fence)] = now + EARLY_CANCEL_SECONDS

    def end(self) -> None:
        """An operator wishes this worker to finish its turns and end: the same as SIGTERM, so it is one."""
        if not self.draining:
            self.draining = True
            log.warning("a2a_server.worker.drain_asked worker=%s", self.id)
            os.kill(os.getpid(), signal.SIGTERM)

    def rebirth(self) -> str:
        """This worker was presumed dead: everything it runs is lost, and it goes on under a new incarnation."""
        former = self.id
        for turn in list(self.running.values()):
            turn.lose()
        self.id = _incarnation()
        if self.courier is not None:
            self.courier.reborn()
        metrics.REAPED.add()
        log.error("a2a_server.worker.reaped former=%s now=%s", former, self.id)
        return former

    @contextmanager
    def caller_waits(self) -> Iterator[None]:
        """Somebody waits here for the end of a turn that may run elsewhere; a drain gives it time."""
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1

    async def wait_idle(self, seconds: float, *, quiet: float = 0.0) -> bool:
        """Waits until no turn runs, nobody waits for one, and none was started for `quiet` seconds; at most so long."""
        now = time.monotonic()
        deadline = now + seconds
        self._last_start = max(self._last_start, now)
        while self.running or self.admitting or self._callers or time.monotonic() - self._last_start < quiet:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(0.05, left))
        return True

    def close(self) -> None:
        """From here on nobody can wait here for a turn's end: its outcome will be on record elsewhere."""
        self.admits = False
        self.closing.set()
        for turn in self.running.values():
            turn.leave()

    async def stop(self) -> None:
        """Ends what still runs without a word to Redis: it stays recorded as this worker's, for others to recover."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)


def _incarnation() -> str:
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def _signal(task_id: str, fence: str) -> str:
    return f"{task_id}:{fence}"
