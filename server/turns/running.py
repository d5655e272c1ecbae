"""One turn in the hands of this worker: its agent and its end.

    the agent's events -> outbox -> the log
    the agent's end -> what is left in the outbox + the last status -> finish_turn -> local followers, next turn

Whatever the store answers with `lost` ends the turn here: its agent is cancelled, and nothing it does is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from server.agents.base import Agent
from server.agents.outcome import Outcome, failed
from server.agents.threads import bridged, run_in_thread
from server.agents.turn import Turn
from server.observe import metrics, traces
from server.protocol import documents
from server.protocol.model import JsonObject, Message, Role, State, Status, StatusUpdate, Task
from server.turns.hub import Hub, Inbox
from server.turns.outbox import BoundReached, Bounds, Outbox, insist
from server.turns.record import PHASE, Opening, load_asked, task_of, trace_of
from stores import Store
from stores.keys import new_uuid
from stores.lean import lean
from stores.records import Finish, Lost, Ticket

log = logging.getLogger(__name__)


@lean
@dataclass(frozen=True, slots=True)
class Ended:
    """How the turn ended for those who waited: a task, a direct message, or `lost` (the record has the outcome)."""

    task: Task | None = None
    reply: Message | None = None


class RunningTurn:
    """Runs one ticket to its end."""

    def __init__(
        self,
        ticket: Ticket,
        opening: Opening | None,
        *,
        agent: Agent,
        store: Store,
        hub: Hub,
        bounds: Bounds,
        shown: bool,
        fresh: bool,
        watched: bool,
        take_next: Callable[[], bool],
    ) -> None:
        """`opening`: what the ticket holds, where it is known without reading it.
        `shown`: somebody may have seen the task already, so a direct reply must complete it instead.
        `fresh`: no agent has begun this turn, whatever its attempt number says.
        `watched`: a stream will ask for its events from the first one on."""
        self.ticket = ticket
        self._ended: Ended | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._reason = ""
        self._news: asyncio.Future[None] | None = None
        self._agent = agent
        self._store = store
        self._bounds = bounds
        self._shown = shown
        self._fresh = fresh
        self._take_next = take_next
        self._asked = opening.asked if opening else None
        self._outbox = Outbox(
            ticket,
            opening.task if opening else task_of(ticket.view),
            store=store,
            hub=hub,
            bounds=bounds,
            watched=watched,
            on_lost=self.lose,
            on_cancel=self._cancel_asked,
        )
        self.came_to = "lost"
        """The state the turn left its task in; `lost` until then, and for ever if it was not ours any more."""
        self._over = False
        self._work: asyncio.Task[Outcome] | None = None

    @property
    def task(self) -> Task:
        """The task as this worker knows it: everything the agent showed so far."""
        return self._outbox.task

    @property
    def trace(self) -> str:
        """The traceparent kept with the task; that of the turn's own message where the task has none."""
        return self.task.trace or trace_of(self.ticket.input)

    @property
    def round_trips(self) -> int:
        """Calls of the store for this turn, its admission and its end among them."""
        return 2 + self._outbox.batches

    # --- from outside ----------------------------------------------------------------------------------------

    async def end(self) -> Ended:
        """How it ended, once it has. Each waits on a future of its own, since who is cancelled takes it along."""
        while self._ended is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return self._ended

    def cancel(self, reason: str) -> None:
        """Asks the agent to stop; the turn then ends as canceled. Harmless when it has ended."""
        if self._over or self._reason or (self._work is not None and self._work.done()):
            return
        self._reason = reason
        self._stop_agent()

    def lose(self) -> None:
        """The turn is somebody else's now: stop the agent and write nothing."""
        if not self._over:
            self._over = True
            self._outbox.shut()
            self._stop_agent()
            self._outbox.wake()

    def leave(self) -> None:
        """This worker closes: whoever waits here is let go, to ask elsewhere. The turn itself goes on while it can."""
        self._end(Ended())

    def hand_on(self) -> None:
        """The turn was given back before it began: who waits here follows it elsewhere."""
        self.came_to = "passed_on"
        self.lose()
        self.leave()

    def claim_inbox(self) -> Inbox | None:
        """For the one stream this turn was started for: all its events from the ticket's on, taken or still to come."""
        return self._outbox.claim_inbox()

    def _cancel_asked(self) -> None:
        self.cancel("requested")

    def _stop_agent(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._tell()

    # --- the run ---------------------------------------------------------------------------------------------

    async def run(self) -> Ticket | None:
        """Runs the turn to its end, and brings back the context's next one for this worker to run."""
        try:
            outcome, session = await self._outcome()
            return None if self._over else await self._finish(outcome, session)
        finally:
            self._over = True
            self._outbox.shut()
            if self._work is not None and not self._work.done():
                self._work.cancel()
            self._end(Ended())
            if self._ended is None or self._ended.task is None:
                # Its end is not among the events that followers were given, so they have to look for it.
                self._outbox.wake()
            self._outbox.let_go()

    async def _outcome(self) -> tuple[Outcome, str | None]:
        """What the agent came to, and the session to save, if it changed."""
        asked = self._asked or load_asked(self.ticket.input)
        message = asked.send.message if asked.send else None
        awaited = asked.send is not None and asked.send.wait
        turn = self._turn(message, asked.metadata, awaited=awaited)
        if asked.what == "cancel":
            self._reason = "requested"
            return await self._canceled(turn)
        refusal = self._refusal()
        if refusal is not None:
            return refusal, None
        if self._stopping():
            return await self._canceled(turn)
        loop = asyncio.get_running_loop()
        self._work = loop.create_task(self._run_agent(turn), name=f"agent {self.ticket.task_id}")
        stopped = await self._wait_for_agent(self._work)
        if self._over:
            return failed(), None
        if self._stopping():
            turn = self._turn(message, asked.metadata, awaited=awaited)
            return await self._canceled(turn, stopped=stopped)
        return self._settled(self._work, turn)

    async def _run_agent(self, turn: Turn) -> Outcome:
        if self._agent.threaded:
            return await run_in_thread(partial(self._agent.run, turn), name=f"agent {self.ticket.task_id}")
        return await self._agent.run(turn)

    def _stopping(self) -> bool:
        return bool(self._reason)

    def _turn(self, message: Message | None, metadata: JsonObject | None, *, awaited: bool) -> Turn:
        ticket = self.ticket
        return Turn(
            task=self.task,
            message=message,
            metadata=metadata,
            stored=ticket.session,
            caller=ticket.context.caller,
            fence=int(ticket.fence),
            attempt=ticket.attempt,
            awaited=awaited,
            emit=bridged(self._outbox.emit) if self._agent.threaded else self._outbox.emit,
        )

    def _refusal(self) -> Outcome | None:
        """A turn that was running elsewhere is not run again, unless its agent allows it."""
        attempt = self.ticket.attempt
        if self._fresh or attempt <= 1 or (self._agent.replay_safe and attempt <= self._agent.max_attempts):
            return None
        info = "The worker that ran this turn was lost. It may have had effects; send a new message to try again."
        return failed("This turn was interrupted.", error_type="worker_lost", error_info=info)

    async def _wait_for_agent(self, work: asyncio.Task[Outcome]) -> bool:
        """Waits for the agent's end, its time-out or its cancel; whether it stopped."""
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        work.add_done_callback(self._tell)
        timer = loop.call_later(self._bounds.timeout_s, self._time_out) if self._bounds.timeout_s else None
        try:
            await self._news
        finally:
            if timer is not None:
                timer.cancel()
        if not work.done():
            # It has a bounded time for its clean-up, then the task is closed without it.
            await asyncio.wait({work}, timeout=self._bounds.cancel_wait_s * 0.8)
        return work.done()

    def _time_out(self) -> None:
        log.warning(
            "a2a_server.turn.task_timeout task=%s context=%s seconds=%s",
            self.ticket.task_id,
            self.task.context_id,
            self._bounds.timeout_s,
        )
        self.cancel("timeout")

    def _tell(self, _work: asyncio.Task[Outcome] | None = None) -> None:
        """The agent ended, or was asked to."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _settled(self, work: asyncio.Task[Outcome], turn: Turn) -> tuple[Outcome, str | None]:
        try:
            outcome = work.result()
            if not isinstance(outcome, Outcome):
                raise TypeError(f"{type(self._agent).__name__}.run returned {type(outcome).__name__}, not an Outcome")
            return outcome, self._session_text(turn)
        except BoundReached as error:
            return failed(str(error), error_type=error.kind, error_info=str(error)), None
        except asyncio.CancelledError:
            # Nobody asked for it: the agent cancelled itself, which is its failure.
            return failed(
                "The agent stopped.", error_type="CancelledError", error_info="the agent cancelled itself"
            ), None
        except Exception as error:
            log.exception("a2a_server.turn.agent_failed task=%s", self.ticket.task_id)
            kind = type(error).__name__
            return failed("The agent failed.", error_type=kind, error_info=str(error)[:500]), None

    async def _canceled(self, turn: Turn, *, stopped: bool = True) -> tuple[Outcome, str | None]:
        """The agent's word on the cancel, if it has one in time."""
        said: Outcome | None = None
        session: str | None = None
        if stopped:
            try:
                async with asyncio.timeout(self._bounds.cancel_wait_s):
                    said = await self._agent.on_cancel(turn)
                session = self._session_text(turn)
            except Exception:
                log.exception("a2a_server.turn.on_cancel_failed task=%s", self.ticket.task_id)
        else:
            log.error("a2a_server.turn.agent_not_stopped task=%s", self.ticket.task_id)
        metadata: JsonObject = {**((said and said.metadata) or {}), "cancel_reason": self._reason}
        if not stopped:
            metadata["stopped"] = False
        return Outcome(State.CANCELED, said.parts if said else (), metadata), session

    def _session_text(self, turn: Turn) -> str | None:
        try:
            text = turn.session_text()
        except ValueError as error:
            raise BoundReached("session_invalid", str(error)) from error
        size, most = len(text.encode()) if text else 0, self._bounds.max_session_bytes
        if most and size > most:
            raise BoundReached("session_too_large", f"the session takes {size} bytes, max_session_bytes is {most}")
        return text

    # --- the end ---------------------------------------------------------------------------------------------

    async def _finish(self, outcome: Outcome, session: str | None) -> Ticket | None:
        self._over = True
        rest = await self._outbox.rest()
        message, outcome = self._last_word(outcome)
        direct: Message | None = None
        if outcome.direct and not self._shown and not self._outbox.emitted and message is not None:
            # There is no task to name: neither now, nor when the message is replayed.
            direct = replace(message, task_id=None)
        task, state = self.task, outcome.state.value
        end = Finish(
            state=state,
            phase=PHASE[outcome.state],
            doc=documents.dump_task(task),
            seq=rest[0].seq,
            events=() if direct else tuple([(entry.kind, entry.doc) for entry in rest]),
            session=session,
            reply=documents.dump_message(direct) if direct else "",
            take_next=self._take_next(),
        )
        finish = partial(self._store.turns.finish_turn, self.ticket, end)
        with traces.span("nonstick.store.finish", task=self.ticket.task_id):
            reply = await insist(finish, self.ticket.task_id)
        if isinstance(reply, Lost):
            metrics.FENCED.add("finish")
            log.warning(
                "a2a_server.turn.lost task=%s fence=%s state=%s", self.ticket.task_id, self.ticket.fence, reply.state
            )
            return None
        self.came_to = state
        if direct is not None:
            self._end(Ended(reply=direct))
        else:
            self._outbox.publish(rest, reply.at_ms)
            self._end(Ended(task=task.having(task.status.at(reply.at_ms))))
        return reply.next

    def _last_word(self, outcome: Outcome) -> tuple[Message | None, Outcome]:
        """Puts the last status behind the other events. One that can't be written is replaced by saying so."""
        try:
            return self._put(outcome), outcome
        except (TypeError, ValueError) as error:
            log.error("a2a_server.turn.invalid_agent_response task=%s error=%s", self.ticket.task_id, error)
            info = f"what the agent answered is not plain JSON: {error}"[:500]
            outcome = failed("The agent failed.", error_type="invalid_agent_response", error_info=info)
            return self._put(outcome), outcome

    def _put(self, outcome: Outcome) -> Message | None:
        message: Message | None = None
        task_id, context_id = self.task.id, self.task.context_id
        if outcome.parts:
            message = Message(new_uuid(), Role.AGENT, outcome.parts, context_id, task_id)
        self._outbox.put(StatusUpdate(task_id, context_id, Status(outcome.state, 0, message), outcome.metadata))
        return message

    def _end(self, ended: Ended) -> None:
        if self._ended is None:
            self._ended = ended
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
