"""Turns on a Cluster, where the fleet's and the callers' keys are in other slots than a context's own.

A turn costs three round trips one after the other instead of two: its place and its entry on the worker's roster are
reserved first, both at once (and then the caller's own limits, where there are any); then ADMIT and FINISH, each one
script in the context's slot. What those owe to other slots they note in their own; it is done in the background, and
what a worker that died left undone is done by a slow sweep over all places.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stores.caretaker import Caretaker, Errands, roster_entry
from stores.client import Client
from stores.errors import StoreUnavailable
from stores.keys import ContextRef, DeliveryRef, Keys
from stores.places import Hold, pairs
from stores.records import Admission, AdmitReply, Admitted, Finish, Finished, Limits, Lost, Queued, Ticket
from stores.scripts import Argument, Script
from stores.together import all_ended
from stores.turns import Passed, TurnStore

# How often an admission is reserved anew. Twice is enough but for others who begin and end in between.
RESERVATIONS = 8


class _ReserveAgain(Exception):
    """The context gave this reservation back before the admission came."""

    def __init__(self, floor: str, own_floor: str) -> None:
        self.floor = floor
        self.own_floor = own_floor


class ApartTurnStore(TurnStore):
    """The same operations, each of them apart from the rest of the fleet's keys."""

    def __init__(
        self, client: Client, keys: Keys, limits: Limits, errands: Errands, *, working: str, submitted: str
    ) -> None:
        super().__init__(client, keys, limits, working=working, submitted=submitted)
        self.care = Caretaker(client, keys, limits)
        self.places = self.care.places
        self._errands = errands
        self._serves = "1" if self._serves_push else "0"

    # --- one step --------------------------------------------------------------------------------------------

    async def _step(
        self,
        context: ContextRef,
        script: Script,
        keys: Sequence[str],
        args: Mapping[str, Argument],
        rest: Sequence[Argument] = (),
    ) -> Any:
        beside = {"stamp": "", "own": "", "refuse": "", "serves": self._serves}
        reply, dues, busy, _ = await self._client.run_hot(script, keys[:1], {**beside, **args}, rest)
        # A turn that goes on settles at its end; meanwhile its listing is all that others see of it.
        rests = script not in (self._admit, self._append) or not busy
        if dues or rests:
            self._errands.run(self.care.settle(context, pairs(dues), rests=rests))
        if reply[0] == "reserve_again":
            raise _ReserveAgain(reply[1], reply[2])
        return reply

    # --- the operations --------------------------------------------------------------------------------------

    async def admit_turn(self, worker: str, asked: Admission) -> AdmitReply:
        entry = roster_entry(asked.context, asked.task_id)
        moves = [("+", entry)]
        if self._serves_push and (asked.push is not None or asked.named):
            moves.append(("d", DeliveryRef(asked.context.caller, asked.task_id).text))
        floors = ("0", "0")
        enrolled = False
        for _ in range(RESERVATIONS):
            if enrolled:
                hold = await self._reserve(asked, *floors)
            else:
                hold, _none = await all_ended(self._reserve(asked, *floors), self.places.move_roster(worker, *moves))
                enrolled = True
            try:
                reply = await self._admit_turn(worker, asked, stamp=hold.stamp, own=hold.own, refuse=hold.refuse)
            except _ReserveAgain as again:
                floors = (again.floor, again.own_floor)
                continue
            if not hold.stamp and isinstance(reply, Admitted | Queued):
                # It was live and had lost its place; that there is no room for another does not concern it.
                self._errands.run(self._replace(asked.context))
            if isinstance(reply, Admitted):
                return Admitted(replace(reply.ticket, hint=entry))
            self._errands.run(self._not_started(worker, asked, entry, reply))
            return reply
        raise StoreUnavailable("this context is given back as fast as it is reserved")

    async def _reserve(self, asked: Admission, floor: str, own_floor: str) -> Hold:
        """The fleet's place first: through it the sweep finds what is left of the caller's."""
        limited = not asked.quiet
        hold = await self._with_room(lambda: self.places.reserve_place(asked.context, limited=limited, floor=floor))
        if hold.refuse or not self.places.limits_callers:
            return hold
        own = await self._with_room(
            lambda: self.places.reserve_own(
                asked.context, asked.task_id, limited=limited, new=not asked.named, floor=own_floor
            )
        )
        return Hold(stamp=hold.stamp, own=own.own, refuse=own.refuse)

    async def _with_room(self, reserve: Callable[[], Awaitable[Hold]]) -> Hold:
        """A refusal is told only after this worker gave back what it has to: its callers have seen those turns end."""
        hold = await reserve()
        if hold.refuse and self._errands.pending:
            await self._errands.settled(1.0)
            hold = await reserve()
        return hold

    async def _not_started(self, worker: str, asked: Admission, entry: str, reply: AdmitReply) -> None:
        await self.places.move_roster(worker, ("-", entry))
        if isinstance(reply, Queued) and reply.delivery:
            return
        if self._serves_push and (asked.push is not None or asked.named):
            await self.places.unserve(worker, DeliveryRef(asked.context.caller, asked.task_id))
        if not isinstance(reply, Queued) and not asked.named:
            await self.places.not_coming(asked.context.caller, asked.task_id)

    async def _replace(self, context: ContextRef) -> None:
        await self.places.reserve_place(context, limited=False)

    async def finish_turn(self, ticket: Ticket, end: Finish) -> Finished | Lost:
        reply = await super().finish_turn(ticket, end)
        moves = [("-", ticket.hint)] if ticket.hint else []
        following = reply.next if isinstance(reply, Finished) else None
        if following is not None:
            # Until then the former turn's entry leads to the context.
            following = replace(following, hint=roster_entry(ticket.context, following.task_id))
            moves += self._enrolled(following)
        if moves:
            self._errands.run(self.places.move_roster(ticket.worker, *moves))
        return replace(reply, next=following) if isinstance(reply, Finished) else reply

    async def pass_turn(self, ticket: Ticket, bound_ms: int) -> Passed:
        word = await super().pass_turn(ticket, bound_ms)
        if word != "kept" and ticket.hint:
            self._errands.run(self.places.move_roster(ticket.worker, ("-", ticket.hint)))
        return word

    async def take_over(
        self, worker: str, context: ContextRef, *, owner: str, fence: str = ""
    ) -> tuple[str, Ticket] | None:
        # Which turn it will be is not known yet.
        entry = roster_entry(context, "")
        await self.places.move_roster(worker, ("+", entry))
        taken = await super().take_over(worker, context, owner=owner, fence=fence)
        moves = [("-", entry)]
        if taken is not None:
            word, ticket = taken
            ticket = replace(ticket, hint=roster_entry(context, ticket.task_id))
            taken = word, ticket
            moves += self._enrolled(ticket)
        self._errands.run(self.places.move_roster(worker, *moves))
        if not owner:
            self._errands.run(self.places.answer_hint(context))
        return taken

    def _enrolled(self, ticket: Ticket) -> list[tuple[str, str]]:
        moves = [("+", ticket.hint)]
        if ticket.delivery:
            moves.append(("d", DeliveryRef(ticket.context.caller, ticket.task_id).text))
        return moves
