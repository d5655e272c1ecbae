"""The heartbeat, and what each beat brings: who died, what is ours and unknown to us, what waits for anybody.

Nobody is presumed dead by stored times. An observer sees a counter stand still for `presumed_dead_s` of its own
monotonic time with Redis answering throughout; a failed or slow beat starts the window again, so a stall of Redis or a
failover kills nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from server.observe import metrics, traces
from server.turns.blocking import LoopWatch
from server.turns.courier import leave_to_others
from server.turns.worker import Worker
from stores.errors import StoreError, StoreUnavailable
from stores.keys import TurnRef, parse_context
from stores.records import Beat, Reaped, Ticket

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rhythm:
    beat_s: float = 1.0
    presumed_dead_s: float = 5.0


@dataclass(slots=True)
class _Sighting:
    counter: str
    since: float


class Heart:
    """Beats for one worker."""

    def __init__(self, worker: Worker, rhythm: Rhythm) -> None:
        self._worker = worker
        self._store = worker.store
        self._rhythm = rhythm
        self._seen: dict[str, _Sighting] = {}
        self._unknown: dict[str, int] = {}
        self._last_beat = 0.0
        self._task: asyncio.Task[None] | None = None
        self._generation: str | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._watch = LoopWatch(worker.agent.name or type(worker.agent).__name__)
        self.answered = False
        """Whether Redis answered the latest beat."""

    async def start(self) -> None:
        """Makes this worker known before its first turn."""
        await self._store.signals.listen(self._worker.channel, self._worker.hear)
        await self.run_once()
        self._watch.start()
        self._task = asyncio.create_task(self._run(), name="heart")

    async def stop(self) -> None:
        """Leaves the fleet in good order."""
        self._watch.stop()
        ending = {task for task in (self._task, self._reloading, self._sweeping) if task is not None}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        self._store.signals.forget(self._worker.channel, self._worker.hear)
        # On a Cluster the ends of the last turns may still be on their way to the roster.
        await self._store.settled()
        try:
            left = await self._store.fleet.leave_fleet(self._worker.id)
        except StoreError as error:
            log.warning("a2a_server.worker.leave_failed worker=%s error=%s", self._worker.id, error)
        else:
            if left:
                log.warning("a2a_server.worker.left_turns worker=%s turns=%d", self._worker.id, len(left))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._rhythm.beat_s)
            try:
                await self.run_once()
            except StoreUnavailable as error:
                self.answered = False
                self._seen.clear()
                log.warning("a2a_server.worker.beat_unanswered worker=%s error=%s", self._worker.id, error)
            except Exception:
                log.exception("a2a_server.worker.beat_failed worker=%s", self._worker.id)

    async def run_once(self) -> None:
        """One beat and everything that follows from it."""
        began = time.monotonic()
        reply = await self._store.fleet.beat_worker(self._worker.id, self._worker.info)
        now = time.monotonic()
        self.answered = True
        if isinstance(reply, Reaped):
            await self._reborn()
            return
        if now - began > self._rhythm.presumed_dead_s / 2 or now - self._last_beat > self._rhythm.presumed_dead_s:
            # We were not looking throughout, so we can say nothing about anybody.
            self._seen.clear()
        self._last_beat = now
        self._heed_reload(reply.generation)
        if reply.wish == "drain":
            self._worker.end()
        await self._check_own(reply)
        if not self._worker.draining:
            await self._claim_ready(reply)
        if self._worker.courier is not None:
            await self._worker.courier.check(reply)
        await self._look_for_dead(reply, now)
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep(), name="sweep")

    def _heed_reload(self, generation: str) -> None:
        """Loads the agent again when somebody asked for it since this worker started, one load at a time."""
        known, self._generation = self._generation, generation
        if known is None and not generation:
            self._worker.loaded = {"generation": "", "error": ""}
        elif generation and known != generation:
            # Also at a worker's first beat: it can't know whether the wish came before or after it read its files.
            self._reloading = asyncio.create_task(self._reload(generation, self._reloading), name="reload")

    async def _reload(self, generation: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await self._worker.agent.reload()
        except Exception as error:
            log.error("a2a_server.agent.reload_failed worker=%s error=%s", self._worker.id, error)
            self._worker.loaded = {"generation": generation, "error": str(error)[:2000]}
        else:
            log.info("a2a_server.agent.reloaded worker=%s", self._worker.id)
            self._worker.loaded = {"generation": generation, "error": ""}

    async def _reborn(self) -> None:
        worker = self._worker
        self._store.signals.forget(worker.channel, worker.hear)
        worker.rebirth()
        await self._store.signals.listen(worker.channel, worker.hear)
        await self._store.fleet.beat_worker(worker.id, worker.info)

    async def _check_own(self, beat: Beat) -> None:
        """Compares the turns stored as ours with those we run: adopts what we do not know, drops what is not ours."""
        worker = self._worker
        turns = [turn for turn in worker.running.values() if turn.ticket.worker == worker.id]
        marks = await self._store.turns.running_marks([turn.ticket for turn in turns]) if turns else []
        for turn, (ours, cancel) in zip(turns, marks, strict=True):
            if worker.running.get(turn.ticket.task_id) is not turn:
                continue
            if not ours:
                turn.lose()
            elif cancel:
                turn.cancel("requested")
        stored = {entry: TurnRef.parse(entry).task_id for entry in beat.turns}
        strange = {
            entry for entry, task in stored.items() if task not in worker.running and task not in worker.admitting
        }
        # Seen twice in a row, it is no admission or ending that crossed this beat: its answer was lost.
        for entry in strange & self._unknown.keys():
            await self._adopt(entry)
        self._unknown = dict.fromkeys(strange, 1)

    async def _adopt(self, entry: str) -> None:
        """A turn is stored as ours and we do not run it: an admission or hand-over whose answer never came. It never
        began, so it is run now."""
        worker = self._worker
        ref = TurnRef.parse(entry)
        if ref.task_id in worker.running or ref.task_id in worker.admitting:
            return
        began = time.time_ns()
        # By the fence of what is really there: on a Cluster an entry can be a former turn's, and the context's running
        # one, which we know well, must not be taken from ourselves.
        task_id, fence, owner = await self._store.turns.running(ref.context)
        if owner not in ("", worker.id) or task_id in worker.running or task_id in worker.admitting:
            await self._store.fleet.settle_hint(worker.id, entry)
            return
        taken = await self._store.turns.take_over(worker.id, ref.context, owner=owner, fence=fence)
        if taken is None or taken[1].task_id != ref.task_id:
            await self._store.fleet.settle_hint(worker.id, entry)
        if taken is not None:
            log.warning("a2a_server.turn.adopted task=%s worker=%s", taken[1].task_id, worker.id)
            self._resume(taken[1], "adopted", began, worker.id, fresh=taken[1].task_id not in worker.faulted)
            worker.faulted.discard(taken[1].task_id)

    def _resume(self, ticket: Ticket, how: str, began: int, former: str, *, fresh: bool = False) -> None:
        """Runs a turn that came from elsewhere, and says so in numbers and in its trace."""
        metrics.RECOVERIES.add(how)
        turn = self._worker.start_turn(ticket, fresh=fresh)
        if traces.on():
            facts: dict[str, str | int] = {"task": ticket.task_id, "attempt": ticket.attempt, "worker": self._worker.id}
            traces.past("nonstick.recovery", turn.trace, began, how=how, former=former, **facts)

    async def _claim_ready(self, beat: Beat) -> None:
        """Runs what a draining worker left in its queues."""
        for text in beat.ready:
            if self._worker.passing.leaves(text):
                continue
            context = parse_context(text)
            began = time.time_ns()
            taken = await self._store.turns.take_over(self._worker.id, context, owner="")
            await self._store.fleet.drop_ready(context)
            if taken is not None:
                self._resume(taken[1], "ready", began, "")

    async def _look_for_dead(self, beat: Beat, now: float) -> None:
        me = self._worker.id
        for other, counter in beat.counters.items():
            if other == me:
                continue
            seen = self._seen.get(other)
            if seen is None or seen.counter != counter:
                self._seen[other] = _Sighting(counter, now)
            elif now - seen.since >= self._rhythm.presumed_dead_s:
                await self._recover(other, counter)
                self._seen.pop(other, None)
        self._seen = {other: seen for other, seen in self._seen.items() if other in beat.counters}

    async def _sweep(self) -> None:
        """What a dead worker left undone in other slots of a Cluster; beside the beat, which must not wait for it."""
        try:
            await self._store.sweep()
        except StoreError as error:
            log.warning("a2a_server.store.sweep_failed worker=%s error=%s", self._worker.id, error)

    async def _recover(self, other: str, counter: str) -> None:
        """Takes over everything a dead worker was running."""
        turns = await self._store.fleet.reap_worker(other, counter)
        if turns is None:
            return
        metrics.DEATHS.add()
        log.error("a2a_server.worker.presumed_dead worker=%s turns=%d", other, len(turns))
        for entry in turns:
            ref = TurnRef.parse(entry)
            began = time.time_ns()
            taken = await self._store.turns.take_over(self._worker.id, ref.context, owner=other)
            await self._store.fleet.settle_hint(other, entry, taken=taken is not None)
            if taken is not None:
                log.warning("a2a_server.turn.recovered task=%s from=%s", taken[1].task_id, other)
                self._resume(taken[1], "dead", began, other)
        if self._worker.courier is not None:
            await self._worker.courier.recover(other)
        else:
            await leave_to_others(self._store, self._worker.id, other)
