"""The operations of a turn's life: admit, append, finish, cancel, take over. Each is one script of the same name."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from stores import scripts
from stores.client import Client
from stores.decode import decode_ticket, decode_view, word_of
from stores.errors import StoreCorrupt
from stores.keys import ContextRef, Keys
from stores.records import (
    Admission,
    AdmitReply,
    Admitted,
    Appended,
    CancelReply,
    Entry,
    Finish,
    Finished,
    InFlight,
    Limits,
    Lost,
    Queued,
    Refused,
    Replayed,
    Reused,
    TaskView,
    Ticket,
)
from stores.scripts import Argument, Script

_REFUSALS = frozenset(
    {
        "unknown",
        "mismatched",
        "closed",
        "context_limit",
        "queue_full",
        "open_limit",
        "too_many",
        "caller_running",
        "caller_contexts",
        "caller_tasks",
    }
)

Passed = Literal["passed", "kept", "lost"]

# Events that go along with a wake-up. More of them come from one quick agent, whose followers read many at once anyway.
CARRY_MOST = 16


class TurnStore:
    """Turns of contexts, on behalf of one worker incarnation at a time."""

    def __init__(self, client: Client, keys: Keys, limits: Limits, *, working: str, submitted: str) -> None:
        """`working` and `submitted` are the server's words for the two states that only the store can time."""
        self._client = client
        self._keys = keys
        constants: dict[str, Argument] = {
            "working": working,
            "submitted": submitted,
            "context_ms": limits.context_ms,
            "task_ms": limits.task_ms,
            "log_ms": limits.log_ms,
            "message_ms": limits.message_ms,
            "idle_ms": limits.idle_ms,
            "queue_limit": limits.queue_limit,
            "max_contexts": limits.max_contexts,
            "max_open": limits.max_open,
            "caller_running": limits.caller_running,
            "caller_contexts": limits.caller_contexts,
            "caller_tasks": limits.caller_tasks,
            "reuse": limits.reuse,
            "push_limit": limits.push_configs,
        }
        load = scripts.load_apart if client.apart else scripts.load
        self._admit = load("admit_turn", constants)
        self._append = load("append_events", constants)
        self._finish = load("finish_turn", constants)
        self._cancel = load("cancel_task", constants)
        self._take_over = load("take_over", constants)
        self._pass = load("pass_turn", constants)
        self._working = working
        self._serves_push = limits.push_configs > 0

    @property
    def operations(self) -> tuple[Script, ...]:
        """The scripts as this configuration makes them."""
        return (self._admit, self._append, self._finish, self._cancel, self._take_over, self._pass)

    def _args(self, context: ContextRef, worker: str, **own: Argument) -> dict[str, Argument]:
        return {
            "prefix": self._keys.prefix(context.tag),
            "channel": self._keys.task_channel,
            "signals": self._keys.worker_channel,
            "caller": context.caller,
            "cid": context.cid,
            "ref": context.text,
            "worker": worker,
            **own,
        }

    def _step(
        self,
        context: ContextRef,
        script: Script,
        keys: Sequence[str],
        args: Mapping[str, Argument],
        rest: Sequence[Argument] = (),
    ) -> Awaitable[Any]:
        """One script of a turn; on a Cluster it is another step (stores/apart.py)."""
        return self._client.run_hot(script, keys, args, rest)

    def _push_keys(self, worker: str) -> tuple[str, ...]:
        """What a worker that serves callbacks needs beside; one that does not takes no delivery."""
        keys = self._keys
        return (keys.deliveries(worker), keys.undelivered) if self._serves_push else ()

    async def admit_turn(self, worker: str, asked: Admission) -> AdmitReply:
        """Claims the message and takes or queues for its context."""
        return await self._admit_turn(worker, asked)

    async def _admit_turn(self, worker: str, asked: Admission, **beside: Argument) -> AdmitReply:
        keys = self._keys
        context = asked.context
        reply = await self._step(
            context,
            self._admit,
            (
                keys.context(context),
                keys.live,
                keys.index(context.caller),
                keys.turns(worker),
                keys.workers,
                *self._push_keys(worker),
            ),
            self._args(
                context,
                worker,
                context_id=asked.context_id,
                mid=asked.mid,
                token=asked.token,
                task=asked.task_id,
                named="1" if asked.named else "0",
                digest=asked.digest,
                doc=asked.doc,
                input=asked.input,
                joined=asked.joined,
                quiet="1" if asked.quiet else "0",
                super_state=asked.super_state,
                super_doc=asked.super_doc,
                push_name=asked.push.name if asked.push else "",
                push_doc=asked.push.doc if asked.push else "",
                push_from="" if asked.push and asked.push.from_start else "0-0",
                **beside,
            ),
        )
        match word_of(reply):
            case "fresh":
                return Admitted(self._fresh_ticket(worker, asked, reply))
            case "admitted":
                return Admitted(decode_ticket(context, worker, reply[1]))
            case "queued":
                return Queued(asked.task_id, int(reply[1]), int(reply[2]), reply[3])
            case "replayed":
                return Replayed(reply[1], reply[2], reply[3], decode_view(reply[1], reply[4]) if reply[4] else None)
            case "in_flight":
                return InFlight(reply[1])
            case "reused":
                return Reused(reply[1])
            case why if why in _REFUSALS:
                return Refused(why)  # type: ignore[arg-type]
            case other:
                raise StoreCorrupt(f"admit_turn answered {other!r}")

    def _fresh_ticket(self, worker: str, asked: Admission, reply: Any) -> Ticket:
        """Of a task that is new with its message, the store has nothing to tell but when and under which fence."""
        _, fence, session, now = reply
        at_ms, first, task_id = int(now), f"{fence}-1", asked.task_id
        entries = (Entry(first, "start", at_ms, ""),)
        # In the order of their fields: by name it takes as long again as all the rest, and every plain turn has one.
        view = TaskView(
            task_id, asked.context_id, self._working, "open", at_ms, asked.doc, "0-0", first, "0-0", entries
        )
        return Ticket(
            asked.context, worker, task_id, asked.mid, fence, asked.input, 1, session, at_ms, view, asked_ms=at_ms
        )

    async def append_events(
        self,
        ticket: Ticket,
        seq: int,
        events: Sequence[tuple[str, str, str]],
        *,
        doc: str = "",
        keep: int = 1000,
        carry: bool = False,
    ) -> Appended | Lost:
        """Adds (kind, state or '', document) triples from sequence number `seq` on; `doc` is a folded document that
        covers them all, after which all but the last `keep` entries may go. `carry`: the wake-up of those who follow
        has the events with it, where they are few and can be told apart."""
        context = ticket.context
        fields = [field for event in events for field in event]
        carry = carry and len(events) <= CARRY_MOST and not any("\n" in field for field in fields)
        reply = await self._step(
            context,
            self._append,
            (self._keys.context(context), self._keys.index(context.caller)),
            self._args(
                context,
                ticket.worker,
                mid=ticket.mid,
                task=ticket.task_id,
                fence=ticket.fence,
                seq=seq,
                doc=doc,
                keep=keep,
                carry=int(carry),
            ),
            fields,
        )
        match word_of(reply):
            case "appended":
                return Appended(int(reply[1]), bool(reply[2]), reply[3] > 0)
            case "lost":
                return Lost()
            case other:
                raise StoreCorrupt(f"append_events answered {other!r}")

    async def finish_turn(self, ticket: Ticket, end: Finish) -> Finished | Lost:
        """Ends the turn and brings back the context's next one."""
        keys = self._keys
        context = ticket.context
        reply = await self._step(
            context,
            self._finish,
            (
                keys.context(context),
                keys.live,
                keys.index(context.caller),
                keys.turns(ticket.worker),
                keys.workers,
                keys.ready,
                *self._push_keys(ticket.worker),
            ),
            self._args(
                context,
                ticket.worker,
                mid=ticket.mid,
                task=ticket.task_id,
                fence=ticket.fence,
                seq=end.seq,
                state=end.state,
                phase=end.phase,
                doc=end.doc,
                session_changed="0" if end.session is None else "1",
                session=end.session or "",
                reply=end.reply,
                take_next="1" if end.take_next else "0",
            ),
            [field for event in end.events for field in event],
        )
        match word_of(reply):
            case "finished":
                following = decode_ticket(context, ticket.worker, reply[2]) if len(reply) > 2 and reply[2] else None
                return Finished(int(reply[1]), following)
            case "lost":
                return Lost(reply[1])
            case other:
                raise StoreCorrupt(f"finish_turn answered {other!r}")

    async def cancel_task(
        self, context: ContextRef, task_id: str, *, based: str, state: str, doc: str, event: str
    ) -> CancelReply:
        """Asks for the end of a task; `doc` and `event` close it if it only waits in the queue."""
        keys = self._keys
        reply = await self._step(
            context,
            self._cancel,
            (
                keys.context(context),
                keys.live,
                keys.index(context.caller),
                *([keys.undelivered] if self._serves_push else []),
            ),
            self._args(context, "", task=task_id, based=based, state=state, doc=doc, event=event),
        )
        match word_of(reply):
            case "requested":
                return CancelReply("requested", fence=reply[1], owner=reply[2])
            case "closed":
                return CancelReply("closed", state=reply[1])
            case ("canceled" | "idle" | "changed" | "unknown") as word:
                return CancelReply(word)
            case other:
                raise StoreCorrupt(f"cancel_task answered {other!r}")

    async def take_over(
        self, worker: str, context: ContextRef, *, owner: str, fence: str = ""
    ) -> tuple[str, Ticket] | None:
        """Takes the context's running turn from `owner` ('taken'), or starts its next queued one ('started')."""
        keys = self._keys
        reply = await self._step(
            context,
            self._take_over,
            (
                keys.context(context),
                keys.live,
                keys.index(context.caller),
                keys.turns(worker),
                keys.workers,
                keys.turns(owner),
                keys.ready,
                *self._push_keys(worker),
            ),
            self._args(context, worker, owner=owner, fence=fence),
        )
        match word_of(reply):
            case ("taken" | "started") as word:
                return str(word), decode_ticket(context, worker, reply[1])
            case "nothing":
                return None
            case other:
                raise StoreCorrupt(f"take_over answered {other!r}")

    async def pass_turn(self, ticket: Ticket, bound_ms: int) -> Passed:
        """Gives the turn back for another worker, unless it was given back first so long ago."""
        keys, context = self._keys, ticket.context
        reply = await self._step(
            context,
            self._pass,
            (keys.context(context), keys.turns(ticket.worker), keys.ready),
            self._args(
                context,
                ticket.worker,
                mid=ticket.mid,
                task=ticket.task_id,
                fence=ticket.fence,
                bound_ms=bound_ms,
            ),
        )
        match word_of(reply):
            case ("passed" | "kept" | "lost") as word:
                return word
            case other:
                raise StoreCorrupt(f"pass_turn answered {other!r}")

    async def running(self, context: ContextRef) -> tuple[str, str, str]:
        """The task, fence and owner of the context's running turn, '' where none runs."""
        held = await self._client.call("HMGET", self._keys.context(context), "run", "run_fence", "run_owner")
        return (held[0], held[1] or "", held[2] or "") if held[0] else ("", "", "")

    async def running_marks(self, tickets: Sequence[Ticket]) -> list[tuple[bool, bool]]:
        """For each turn: is it still ours, and was its cancel asked for. One round trip."""
        replies: list[Any] = await self._client.batch(
            [
                ["HMGET", self._keys.context(t.context), "run", "run_mid", "run_fence", "run_owner", "cancel"]
                for t in tickets
            ]
        )
        marks = []
        for ticket, (*held, cancel) in zip(tickets, replies, strict=True):
            ours = held == [ticket.task_id, ticket.mid, ticket.fence, ticket.worker]
            marks.append((ours, ours and cancel == ticket.fence))
        return marks
