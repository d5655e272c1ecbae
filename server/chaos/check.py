"""Whether the promises held: what orchestrators saw, what agents wrote down, and what is left in the store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

from server.chaos.agent import Run
from server.chaos.load import Book, Sent
from stores.client import Client
from stores.errors import StoreError

# One round trip for any number of keys.
_ENDLESS = """
local cursor, endless = '0', {}
repeat
  local found = redis.call('SCAN', cursor, 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    if redis.call('PTTL', key) == -1 then endless[#endless + 1] = key end
  end
until cursor == '0'
return endless
"""
TERMINAL = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
TOLD = (*TERMINAL, "INPUT_REQUIRED")
# Ended well on record: what the agent did counts, and nobody else's turn may have come between.
COUNTED = ("COMPLETED", "INPUT_REQUIRED")


def check_book(book: Book, runs: list[Run]) -> list[str]:
    """Everything that can be told from outside."""
    return [
        *book.problems,
        *_check_runs(book.sent, runs),
        *_check_contexts(book.sent, runs),
        *_check_streams(book.sent),
    ]


def _check_runs(sent: list[Sent], runs: list[Run]) -> Iterator[str]:
    begun = Counter(run.message for run in runs if run.what == "begin")
    ended = Counter(run.message for run in runs if run.what == "end")
    for one in sent:
        where = f"{one.id} ({one.text})"
        if one.acknowledged and not one.state:
            yield f"{where}: acknowledged, and it never ended"
        if begun[one.id] > 1:
            yield f"{where}: ran {begun[one.id]} times"
        if ended[one.id] > 1:
            yield f"{where}: ran {ended[one.id]} times to its end"
        if one.state in COUNTED and ended[one.id] != 1:
            yield f"{where}: {one.state} on record, but its agent ended {ended[one.id]} times"
        if one.state == "CANCELED" and not one.canceled:
            yield f"{where}: canceled, and nobody asked for it"
    known = {one.id for one in sent}
    for message in begun.keys() - known:
        yield f"{message}: ran, and nobody sent it"


def _check_contexts(sent: list[Sent], runs: list[Run]) -> Iterator[str]:
    by_context: dict[str, list[Sent]] = defaultdict(list)
    for one in sent:
        by_context[one.context].append(one)
    spans: dict[str, tuple[float, float]] = {}
    begun = {run.message: run.at for run in runs if run.what == "begin"}
    for run in runs:
        if run.what == "end" and run.message in begun:
            spans[run.message] = (begun[run.message], run.at)
    for context, messages in by_context.items():
        counted = [one for one in messages if one.state in COUNTED]
        yield from _check_session(context, counted)
        yield from _check_order(context, counted)
        timed = sorted((spans[one.id], one.id) for one in counted if one.id in spans)
        for (first, first_id), (second, second_id) in itertools.pairwise(timed):
            if second[0] < first[1]:
                yield f"context {context}: {second_id} began before {first_id} had ended"


def _check_session(context: str, counted: list[Sent]) -> Iterator[str]:
    """Each turn that ended well saw all that ended well before it, once, and itself at the end."""
    longest = max((one.heard for one in counted), key=len, default=[])
    if sorted(longest) != sorted(one.id for one in counted):
        lost = {one.id for one in counted} - set(longest)
        yield f"context {context}: the session has {len(longest)} of {len(counted)} turns; lost: {sorted(lost)[:5]}"
    for one in counted:
        if one.heard != longest[: len(one.heard)] or one.heard[-1:] != [one.id]:
            yield f"context {context}: {one.id} found another session than its predecessor left"


def _check_order(context: str, counted: list[Sent]) -> Iterator[str]:
    """A sender waits for each outcome, so its turns can't have changed places."""
    longest = max((one.heard for one in counted), key=len, default=[])
    place = {message: number for number, message in enumerate(longest)}
    by_sender: dict[int, list[Sent]] = defaultdict(list)
    for one in counted:
        by_sender[one.sender].append(one)
    for own in by_sender.values():
        places = [place[one.id] for one in own if one.id in place]
        if places != sorted(places):
            yield f"context {context}: turns of one sender were swapped"


def _check_streams(sent: list[Sent]) -> Iterator[str]:
    for one in sent:
        if not one.text.startswith("stream") or not one.ids:
            continue
        whole = list(range(int(one.text.split()[1])))
        if one.pieces != whole[: len(one.pieces)]:
            yield f"{one.id} ({one.text}): pieces came as {one.pieces}"
        elif one.state == "COMPLETED" and one.pieces != whole:
            yield f"{one.id} ({one.text}): completed with {len(one.pieces)} of {len(whole)} pieces"


async def check_hook(sent: list[Sent], told: dict[str, list[str]], seconds: float) -> list[str]:
    """Each message's callback was told its outcome, at least once. Deliveries may still be under way."""
    waiting = [one for one in sent if one.hook and one.task and one.state in TOLD]
    for _ in range(int(seconds * 10)):
        waiting = [one for one in waiting if one.state not in told.get(one.task, ())]
        if not waiting:
            break
        await asyncio.sleep(0.1)
    problems = [
        f"{one.id} ({one.text}): the callback of task {one.task} was never told {one.state}, only {told.get(one.task)}"
        for one in waiting
    ]
    for task, states in told.items():
        ends = [number for number, state in enumerate(states) if state in TERMINAL]
        if ends and set(states[ends[0] :]) != {states[ends[0]]}:
            problems.append(f"task {task}: its callback was told {states}")
    return problems


async def check_store(client: Client, namespace: str) -> list[str]:
    """What is left when everything has ended."""
    problems = []
    if endless := await client.call("EVAL", _ENDLESS, 0):
        problems.append(f"keys without a TTL: {endless[:5]}")
    live: list[str] = []
    for _ in range(50):
        live = await client.call("ZRANGE", f"{namespace}:{{live}}:contexts", 0, -1)
        if not live:
            break
        await asyncio.sleep(0.1)
    if live:
        problems.append(f"{len(live)} contexts count as live though every task has ended")
    ready = await client.call("SMEMBERS", f"{namespace}:{{fleet}}:ready")
    if ready:
        problems.append(f"{len(ready)} contexts still wait for a worker")
    return problems


class CapWatch:
    """Counts live contexts all along, from outside."""

    def __init__(self, client: Client, namespace: str, cap: int) -> None:
        self._client = client
        self._key = f"{namespace}:{{live}}:contexts"
        self._cap = cap
        self.most = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            with contextlib.suppress(StoreError):  # away for now; the next look comes
                self.most = max(self.most, int(await self._client.call("ZCARD", self._key)))
            await asyncio.sleep(0.05)

    def problems(self) -> list[str]:
        return [f"max_contexts is {self._cap}, {self.most} were live at once"] if self.most > self._cap else []
