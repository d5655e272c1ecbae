"""What must be true after any crash, once another worker has recovered: every promise, looked at from outside."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from server.auth.caller import ANONYMOUS
from stores import Store
from stores.records import Entry
from tests.crash.cell import SETTLED, Cell, Said
from tests.support.agents import AGENTS
from tests.support.client import Item, Speaker
from tests.support.wait import wait_found

TERMINAL = ("completed", "failed", "canceled", "rejected")


class Judge:
    """Looks at a cell whose victim is dead, through a worker that was started after it."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        survivor = cell.start(observes=True)
        self._survivor = Speaker(cell.http, survivor.url)
        self._agent = AGENTS[cell.agent]
        self.problems: list[str] = []

    def _expect(self, true: object, problem: str) -> None:
        if not true:
            self.problems.append(problem)

    async def judge(self) -> list[str]:
        outcomes = [(said, await self._outcome(said)) for said in self._cell.said]
        async with self._cell.store() as store:
            for said, item in outcomes:
                self._check_end(said, item)
                if item.kind == "task":
                    await self._check_stream(said, item)
                    await self._check_log(store, said, item)
            await self._check_session(outcomes)
            await self._check_again(outcomes)
            await self._close([item for _, item in outcomes])
            await self._check_callbacks(outcomes)
            await wait_found(lambda: self._is_clean(store), what="nothing is left over")
        return self.problems

    # --- messages ------------------------------------------------------------------------------------------------

    async def _outcome(self, said: Said) -> Item:
        """What a careful client does: the same message again, until it has its outcome."""

        async def ask() -> Item | None:
            answer = await self._survivor.call("send", self._cell.params(said, wait=False))
            if answer.status != 200:
                assert answer.status == 409, answer
                await asyncio.sleep(0.05)
                return None
            item = answer.item
            if item.kind == "message" or item.state in SETTLED:
                return item
            if said.text.endswith("never"):
                said.canceled = True
                await self._survivor.cancel(item.id)  # it would run for ever
            return None

        return await wait_found(ask, what=f"the outcome of {said.text!r}")

    def _check_end(self, said: Said, item: Item) -> None:
        """It ended once, truthfully, and as its sender was told."""
        begun, ended = (len(self._cell.ledger.notes(what, message=said.id)) for what in ("start", "end"))
        attempts = self._agent.max_attempts if self._agent.replay_safe else 1
        self._expect(begun <= attempts, f"{said.text}: ran {begun} times")
        self._expect(ended <= attempts, f"{said.text}: ran {ended} times to its end")
        if item.kind == "message":
            self._expect(begun == 1, f"{said.text}: answered, and it ran {begun} times")
            return
        allowed = {"completed"} | ({"failed"} if not self._agent.replay_safe else set())
        allowed |= {"canceled"} if said.canceled else set()
        allowed |= {"input_required"} if said.text == "ask" else set()
        self._expect(item.state in allowed, f"{said.text}: is {item.state}")
        if item.state == "failed":
            self._expect(item.data.get("error_type") == "worker_lost", f"{said.text}: failed with {item.data}")
        elif item.state == "completed":
            self._expect(ended >= 1, f"{said.text}: completed, and its agent never ended")
        if said.told in TERMINAL:
            self._expect(item.state == said.told, f"{said.text}: its sender was told {said.told}, now {item.state}")
        if said.task_id:
            self._expect(item.id == said.task_id, f"{said.text}: is another task than its sender was told")

    async def _check_again(self, outcomes: list[tuple[Said, Item]]) -> None:
        """A retry changes nothing."""
        for said, item in outcomes:
            begun = len(self._cell.ledger.notes("start", message=said.id))
            again = (await self._survivor.call("send", self._cell.params(said, wait=True))).item
            self._expect(again.kind == item.kind, f"{said.text}: a retry is a {again.kind}")
            if item.kind == "task" and item.state in TERMINAL:
                self._expect((again.id, again.state) == (item.id, item.state), f"{said.text}: a retry is {again.state}")
            now = len(self._cell.ledger.notes("start", message=said.id))
            self._expect(now == begun, f"{said.text}: a retry ran again")

    async def _check_session(self, outcomes: list[tuple[Said, Item]]) -> None:
        """The context goes on, with what the turns that ended well left, in the order in which they ended."""
        order = [note["message"] for note in self._cell.ledger.notes("end", context=self._cell.context)]
        kept = {said.id: said.text for said, item in outcomes if _ended_well(said, item)}
        # A turn that ran again counts where it ended last.
        ends = dict.fromkeys(reversed(order))
        expected = [kept[message] for message in reversed(ends) if message in kept]
        following = await self._survivor.send("echo next", context=self._cell.context)
        heard = [text for text in following.task.data["heard"] if text != "(canceled)"]
        self._expect(heard == [*expected, "echo next"], f"the session has {heard}, and {expected} ended well")

    # --- events --------------------------------------------------------------------------------------------------

    async def _check_stream(self, said: Said, item: Item) -> None:
        """A stream that broke is resumed where it broke: no piece is missing, none comes twice, and it ends."""
        if not said.streamed or item.state not in TERMINAL:
            return
        if said.told not in TERMINAL and said.cursor is not None:
            async with self._survivor.subscribe(item.id, last=said.cursor) as reader:
                await self._cell.read(said, reader)
            self._expect(said.told == item.state, f"{said.text}: its stream ended as {said.told or 'nothing'}")
        if said.cursor is None:
            return
        count = int(said.text.split()[1])
        whole = [str(number) for number in range(count)]
        self._expect(said.pieces == whole[: len(said.pieces)], f"{said.text}: pieces came as {said.pieces}")
        if item.state == "completed":
            self._expect(said.pieces == whole, f"{said.text}: completed with {said.pieces}")

    async def _check_log(self, store: Store, said: Said, item: Item) -> None:
        """Each holder's events are numbered from 1 on without a gap, and there is one end."""
        task = item.id
        view = await store.tasks.read_task(ANONYMOUS.key, task, after="0-0")
        entries = view.entries if view else ()
        ids = [tuple(map(int, entry.id.split("-"))) for entry in entries]
        for fence, own in itertools.groupby(ids, key=lambda place: place[0]):
            numbers = [seq for _, seq in own]
            # 0 is what another turn of the context wrote: that this task was closed, or that a message joined it.
            whole = list(range(numbers[0], numbers[0] + len(numbers)))
            self._expect(numbers == whole and numbers[0] <= 1, f"{said.text}: events of fence {fence} are {numbers}")
        last = entries[-1].id if entries else ""
        self._expect(view is not None and view.last == last, f"{said.text}: its log ends at {last}, not as on record")
        if item.state in TERMINAL:
            ends = [entry for entry in entries if _state_of(entry) in TERMINAL]
            self._expect(len(ends) == 1, f"{said.text}: its log has {len(ends)} ends")

    async def _check_callbacks(self, outcomes: list[tuple[Said, Item]]) -> None:
        """Whoever wanted to be told was told the end, and nothing after it; or the letter is with the dead ones."""
        for said, item in outcomes:
            if not said.hook:
                continue
            await self._cell.hook.until_state(item.state)
            states = [told.state for told in self._cell.hook.told if told.task_id == item.id and told.state]
            after = states[states.index(item.state) :]
            self._expect(set(after) == {item.state}, f"{said.text}: its callback was told {states}")

    # --- what is left --------------------------------------------------------------------------------------------

    async def _close(self, items: list[Item]) -> None:
        """Questions that nobody will answer keep their context live, as they should."""
        for item in items:
            if item.kind == "task" and item.state == "input_required":
                await self._survivor.cancel(item.id)

    async def _is_clean(self, store: Store) -> bool:
        """The cap is back, no roster or hint is left, and only the survivor belongs to the fleet."""
        keys, call = store.keys, store.client.call
        left: list[Any] = [
            await call("ZRANGE", keys.live, 0, -1),
            await call("SMEMBERS", keys.ready),
            await call("SMEMBERS", keys.undelivered),
            (await call("ZRANGE", keys.workers, 0, -1))[1:],
        ]
        for kind in ("turns", "deliveries"):
            left += [await call("SMEMBERS", key) for key in await call("KEYS", f"{keys.fleet}{kind}:*")]
        return not any(left)


def _ended_well(said: Said, item: Item) -> bool:
    """Whether the message's own turn did; a later turn of its task may have failed."""
    return item.kind == "message" or item.state != "failed" or said.told == "input_required"


def _state_of(entry: Entry) -> str:
    return str(json.loads(entry.doc)["state"]) if entry.kind == "status" else ""
