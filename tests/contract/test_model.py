"""A small model of contexts, queues, tasks and messages, walked at random beside the real store.

Three workers call every operation in any order: again with the same arguments, with tickets that are long stale, with
take-overs nobody asked for. The store must answer what the model answers, and hold what it holds after each step.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stores import Store, open_store
from stores.keys import ContextRef
from stores.records import (
    Admission,
    Admitted,
    Appended,
    Finished,
    InFlight,
    Limits,
    Lost,
    Queued,
    Refused,
    Replayed,
    Ticket,
)
from tests.contract.builders import CALLER, admission, ending
from tests.contract.conftest import assert_every_key_lapses
from tests.support.engines import engine

Answer = TypeVar("Answer")
LIMITS = Limits(queue_limit=3, max_contexts=2)
WORKERS = ("w0", "w1", "w2")
CONTEXTS = ("c0", "c1", "c2")
ENDS = (("completed", "closed"), ("input_required", "waiting"), ("failed", "closed"))


@dataclass
class Message:
    task: str
    token: str
    supersedes: bool
    status: str = "queued"
    error: str = ""


@dataclass
class Task:
    state: str
    phase: str
    canceled_in_queue: bool = False


@dataclass
class Run:
    mid: str
    task: str
    fence: int
    worker: str
    via: str


@dataclass
class Context:
    name: str
    fence: int = 0
    run: Run | None = None
    queue: list[tuple[str, str]] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    ended: set[tuple[str, str, str]] = field(default_factory=set)
    completions: dict[str, int] = field(default_factory=dict)
    hinted: bool = False

    @property
    def ref(self) -> ContextRef:
        return ContextRef.of(CALLER, self.name)

    @property
    def open(self) -> set[str]:
        return {task for task, facts in self.tasks.items() if facts.phase != "closed"}

    @property
    def busy(self) -> bool:
        return self.run is not None or bool(self.queue)

    @property
    def live(self) -> bool:
        return self.busy or bool(self.open)

    def start(self, mid: str, task: str, worker: str, via: str) -> None:
        assert self.run is None, "two turns of one context"
        self.fence += 1
        self.run = Run(mid, task, self.fence, worker, via)
        self.messages[mid].status = "running"
        if self.messages[mid].supersedes:
            for other, facts in self.tasks.items():
                if other != task and facts.phase == "waiting":
                    facts.state, facts.phase = "completed", "closed"
        self.tasks[task].state, self.tasks[task].phase = "working", "open"

    def start_next(self, worker: str, via: str) -> bool:
        while self.queue:
            mid, task = self.queue.pop(0)
            if self.tasks[task].phase != "closed":
                self.start(mid, task, worker, via)
                return True
            self.messages[mid].status, self.messages[mid].error = "closed", "task_closed"
        return False


class StoreMachine(RuleBasedStateMachine):
    """The walk. `url` is set by the test that runs it."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store: Store = self.wait(self._open())
        self.contexts = {name: Context(name) for name in CONTEXTS}
        self.asked: list[tuple[Admission, str]] = []
        self.tickets: list[Ticket] = []
        self.sequence = 10

    def wait(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self.runner.run(call)

    async def _open(self) -> Store:
        return open_store(self.url, f"m{secrets.token_hex(4)}", LIMITS)

    @initialize(name=st.sampled_from(CONTEXTS), worker=st.sampled_from(WORKERS))
    def begin(self, name: str, worker: str) -> None:
        self._admit(admission(name, "m0"), worker)

    # --- operations ------------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(CONTEXTS),
        message=st.integers(1, 9),
        worker=st.sampled_from(WORKERS),
        supersedes=st.booleans(),
    )
    def send(self, name: str, message: int, worker: str, supersedes: bool) -> None:
        more = {"super_state": "completed", "super_doc": "{}"} if supersedes else {}
        self._admit(admission(name, f"m{message}", **more), worker)

    @rule(name=st.sampled_from(CONTEXTS), message=st.integers(1, 9), worker=st.sampled_from(WORKERS), data=st.data())
    def answer(self, name: str, message: int, worker: str, data: st.DataObject) -> None:
        tasks = sorted(self.contexts[name].tasks)
        if tasks:
            task = data.draw(st.sampled_from(tasks))
            self._admit(admission(name, f"m{message}", task_id=task, named=True, joined="{}", doc=""), worker)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def repeat_admission(self, data: st.DataObject) -> None:
        self._admit(*data.draw(st.sampled_from(self.asked)))

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), end=st.sampled_from(ENDS), take_next=st.booleans())
    def end(self, data: st.DataObject, end: tuple[str, str], take_next: bool) -> None:
        """With any ticket ever given out, so also with those that ended or were lost."""
        ticket = data.draw(st.sampled_from(self.tickets[-6:]))
        self._finish(ticket, end, take_next)

    @precondition(lambda self: any(context.run for context in self.contexts.values()))
    @rule(data=st.data(), end=st.sampled_from(ENDS), take_next=st.booleans())
    def end_running(self, data: st.DataObject, end: tuple[str, str], take_next: bool) -> None:
        holders = [ticket for ticket in self.tickets if self._holds(ticket)]
        self._finish(data.draw(st.sampled_from(holders)), end, take_next)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), state=st.sampled_from(["", "thinking"]))
    def append(self, data: st.DataObject, state: str) -> None:
        ticket = data.draw(st.sampled_from(self.tickets))
        self.sequence += 1
        reply = self.wait(self.store.turns.append_events(ticket, self.sequence, [("status", state, "{}")]))
        assert isinstance(reply, Appended if self._holds(ticket) else Lost)
        if self._holds(ticket) and state:
            self._context(ticket).tasks[ticket.task_id].state = state

    @rule(
        name=st.sampled_from(CONTEXTS),
        worker=st.sampled_from(WORKERS),
        owner=st.sampled_from(["", *WORKERS]),
        exact=st.booleans(),
    )
    def take_over(self, name: str, worker: str, owner: str, exact: bool) -> None:
        context = self.contexts[name]
        fence = str(context.run.fence if context.run else context.fence) if exact else ""
        reply = self.wait(self.store.turns.take_over(worker, context.ref, owner=owner, fence=fence))
        context.hinted = False
        asked, run = f"{fence}:{owner}", context.run
        word: str | None = None
        if run is None:
            word = "started" if context.start_next(worker, f"next:{asked}") else None
        elif run.worker == worker and run.via in (f"over:{asked}", f"next:{asked}"):
            word = "taken" if run.via.startswith("over") else "started"
        elif run.worker == owner:
            context.fence += 1
            run.fence, run.worker, run.via = context.fence, worker, f"over:{asked}"
            word = "taken"
        assert (reply[0] if reply else None) == word
        if reply:
            self._given(context, reply[1])

    @rule(name=st.sampled_from(CONTEXTS), data=st.data())
    def cancel(self, name: str, data: st.DataObject) -> None:
        context = self.contexts[name]
        if not context.tasks:
            return
        task = data.draw(st.sampled_from(sorted(context.tasks)))
        call = self.store.turns.cancel_task(context.ref, task, based="0-0", state="canceled", doc="{}", event="{}")
        word = self.wait(call).word
        facts = context.tasks[task]
        if facts.phase == "closed":
            assert word == ("canceled" if facts.canceled_in_queue else "closed")
        elif context.run and context.run.task == task:
            assert word == "requested"
        elif facts.phase == "waiting":
            assert word == "idle"
        else:
            assert word == "canceled"
            facts.state, facts.phase, facts.canceled_in_queue = "canceled", "closed", True
            context.fence += 1
            for mid, queued in context.queue:
                if queued == task:
                    context.messages[mid].status = "closed"
            context.queue = [entry for entry in context.queue if entry[1] != task]

    # --- the model's side ------------------------------------------------------------------------------------

    def _context(self, ticket: Ticket) -> Context:
        return next(context for context in self.contexts.values() if context.ref == ticket.context)

    def _holds(self, ticket: Ticket) -> bool:
        run = self._context(ticket).run
        return run is not None and (run.mid, run.task, str(run.fence), run.worker) == (
            ticket.mid,
            ticket.task_id,
            ticket.fence,
            ticket.worker,
        )

    def _given(self, context: Context, ticket: Ticket) -> None:
        assert self._holds(ticket), "a ticket for a turn that is not the running one"
        if ticket not in self.tickets:
            self.tickets.append(ticket)

    def _admit(self, asked: Admission, worker: str) -> None:
        context = next(each for each in self.contexts.values() if each.ref == asked.context)
        self.asked.append((asked, worker))
        reply = self.wait(self.store.turns.admit_turn(worker, asked))
        known, run = context.messages.get(asked.mid), context.run
        if known is not None:
            if known.status == "closed":
                assert isinstance(reply, Replayed)
                assert (reply.task_id, reply.error) == (known.task, known.error)
            elif known.token != asked.token:
                assert reply == InFlight(known.task)
            elif run and (run.mid, run.worker, run.via) == (asked.mid, worker, ""):
                assert isinstance(reply, Admitted)
                self._given(context, reply.ticket)
            else:
                assert isinstance(reply, Queued)
            return
        if asked.named and context.tasks[asked.task_id].phase == "closed":
            assert reply == Refused("closed")
        elif context.busy and len(context.queue) >= LIMITS.queue_limit:
            assert reply == Refused("queue_full")
        elif not context.live and sum(each.live for each in self.contexts.values()) >= LIMITS.max_contexts:
            assert reply == Refused("context_limit")
        else:
            context.messages[asked.mid] = Message(asked.task_id, asked.token, bool(asked.super_doc))
            if not asked.named:
                context.tasks[asked.task_id] = Task("submitted", "open")
            if context.busy:
                context.queue.append((asked.mid, asked.task_id))
                assert isinstance(reply, Queued)
                assert reply.place == len(context.queue)
            else:
                context.start(asked.mid, asked.task_id, worker, "")
                assert isinstance(reply, Admitted)
                self._given(context, reply.ticket)

    def _finish(self, ticket: Ticket, end: tuple[str, str], take_next: bool) -> None:
        context = self._context(ticket)
        mark = (ticket.mid, ticket.fence, ticket.worker)
        via = f"{ticket.fence}:{ticket.worker}"
        self.sequence += 1
        call = self.store.turns.finish_turn(ticket, ending(*end, seq=self.sequence, take_next=take_next))
        reply = self.wait(call)
        if self._holds(ticket):
            context.run = None
            context.ended.add(mark)
            context.completions[ticket.mid] = context.completions.get(ticket.mid, 0) + 1
            context.messages[ticket.mid].status = "closed"
            context.tasks[ticket.task_id].state, context.tasks[ticket.task_id].phase = end
            if take_next:
                context.start_next(ticket.worker, via)
            elif context.queue:
                context.hinted = True
        elif mark not in context.ended:
            assert isinstance(reply, Lost)
            return
        assert isinstance(reply, Finished)
        run = context.run
        assert (reply.next is not None) == (run is not None and (run.via, run.worker) == (via, ticket.worker))
        if reply.next:
            self._given(context, reply.next)

    # --- after each step -------------------------------------------------------------------------------------

    @invariant()
    def the_store_holds_what_the_model_holds(self) -> None:
        self.wait(self._compare())

    @invariant()
    def no_message_ran_to_its_end_twice(self) -> None:
        assert all(count == 1 for context in self.contexts.values() for count in context.completions.values())

    async def _compare(self) -> None:
        client, keys = self.store.client, self.store.keys
        for context in self.contexts.values():
            ref, run = context.ref, context.run
            held, queue, opened = await client.batch(
                [
                    ["HMGET", keys.context(ref), "run", "run_fence", "run_owner"],
                    ["LRANGE", keys.queue(ref), 0, -1],
                    ["HGET", keys.context(ref), "open"],
                ]
            )
            if run:
                assert held == [run.task, str(run.fence), run.worker]
            else:
                assert not held[0]
            assert queue == [f"{mid}:{task}" for mid, task in context.queue]
            assert set((opened or "").split()) == context.open
            assert (await self.store.tasks.list_tasks(CALLER, context=ref, size=1)).total == len(context.tasks)
        live, ready, workers, *rosters = await client.batch(
            [
                ["ZRANGE", keys.live, 0, -1],
                ["SMEMBERS", keys.ready],
                ["ZRANGE", keys.workers, 0, -1],
                *[["SMEMBERS", keys.turns(worker)] for worker in WORKERS],
            ]
        )
        contexts = list(self.contexts.values())
        assert set(live) == {context.ref.text for context in contexts if context.live}
        # A queue without a running turn is always somebody's business; a hint too many does no harm.
        assert {each.ref.text for each in contexts if each.queue and not each.run} <= set(ready)
        for worker, roster in zip(WORKERS, rosters, strict=True):
            runs = [(each, each.run) for each in contexts if each.run and each.run.worker == worker]
            assert set(roster) == {f"{each.ref.text}:{run.task}" for each, run in runs if run}
            assert not roster or worker in workers
        tasks = [facts for context in contexts for facts in context.tasks.values()]
        assert (await self.store.tasks.list_tasks(CALLER, size=1)).total == len(tasks)
        for state in ("submitted", "working", "thinking", "input_required", "completed", "failed", "canceled"):
            page = await self.store.tasks.list_tasks(CALLER, state=state, size=1)
            assert page.total == sum(facts.state == state for facts in tasks), state

    def teardown(self) -> None:
        self.wait(assert_every_key_lapses(self.store))
        self.wait(self.store.close())
        self.runner.close()


def test_random_walks_of_three_workers_agree_with_the_model() -> None:
    with engine("valkey") as server:
        StoreMachine.url = server.url
        bounds = settings(
            max_examples=60,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        run_state_machine_as_test(StoreMachine, settings=bounds)
