"""One chaos run from its start to its verdict: `nonstick chaos`."""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from server.chaos.agent import read_ledger
from server.chaos.check import CapWatch, check_book, check_hook, check_store
from server.chaos.client import READ_SECONDS, Wire, new_http
from server.chaos.faults import KINDS, Faults
from server.chaos.fleet import ChaosFleet, NotStarted
from server.chaos.hook import Hook
from server.chaos.load import SETTLE_SECONDS, Book, Orchestrator
from stores.client import Client
from stores.errors import StoreError

NAMESPACE = "chaos"
SHOWN_PROBLEMS = 30
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """`mutation` plants a bug in the fleet's own processes, for the test of this suite."""

    seconds: float = 60.0
    seed: int | None = None
    workers: int = 3
    contexts: int = 8
    faults: tuple[str, ...] = KINDS
    settle_seconds: float = SETTLE_SECONDS
    mutation: str = ""
    keep: bool = False
    """The folder of a run that found something is left, with the logs of all processes and the store's own files."""


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: list[str]
    counts: dict[str, int]
    faults: dict[str, int]


def _say(line: str) -> None:
    print(line, flush=True)  # also into a file or a pipe, while it happens


def chaos(options: Options, say: Callable[[str], None] = _say) -> int:
    """Runs, prints what it did and found; 0 when every promise held, 1 when not, 2 when it could not run."""
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    say(f"chaos: {options.workers} workers, {options.seconds:g} s, seed {seed}")
    folder = Path(tempfile.mkdtemp(prefix="nonstick-chaos-"))
    kept = False
    try:
        verdict = asyncio.run(_Run(options, seed, folder, say).run())
        kept = bool(verdict.problems) and options.keep
    except NotStarted as error:
        say(f"chaos: {error}")
        return 2
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    say(f"chaos: did {_listed(verdict.faults)}")
    say(f"chaos: saw {_listed(verdict.counts)}")
    for problem in verdict.problems[:SHOWN_PROBLEMS]:
        say(f"chaos: BROKEN: {problem}")
    if len(verdict.problems) > SHOWN_PROBLEMS:
        say(f"chaos: and {len(verdict.problems) - SHOWN_PROBLEMS} more")
    if kept:
        say(f"chaos: what the workers logged is in {folder}")
    say(f"chaos: {'every promise held' if not verdict.problems else f'{len(verdict.problems)} broken promises'}")
    return 1 if verdict.problems else 0


class _Run:
    def __init__(self, options: Options, seed: int, folder: Path, say: Callable[[str], None]) -> None:
        self._options = options
        self._rng = random.Random(seed)
        self._folder = folder
        self._say = say
        self._cap = options.contexts + 2
        settings: dict[str, Any] = {
            "namespace": NAMESPACE,
            "heartbeat_seconds": 0.25,
            "presumed_dead_seconds": 1.5,
            "cancel_wait_seconds": 5,
            "drain_seconds": 4,
            "max_contexts": self._cap,
            "a2a_message_cache_ttl_seconds": 3600,
            "push_notifications_enabled": True,
            "push_allow_private_targets_for_tests_only": True,
            "push_retry_seconds": 0.1,
        }
        self._dead_s = float(settings["presumed_dead_seconds"])
        self._fleet = ChaosFleet(options.workers, settings, folder, options.mutation)
        self._book = Book()

    async def run(self) -> Verdict:
        client = Client(self._fleet.engine.url)
        self._faults = Faults(self._fleet, client, self._rng, self._options.faults, self._dead_s)
        watch = CapWatch(client, NAMESPACE, self._cap)
        try:
            self._fleet.start()
            async with new_http() as http, Hook() as hook:
                await self._until_ready(http)
                await self._storm(http, watch, hook.url)
                problems = check_book(self._book, read_ledger(self._folder))
                problems += await check_hook(self._book.sent, hook.told, self._options.settle_seconds)
                self._pushes = sum(map(len, hook.told.values()))
                problems += watch.problems()
                problems += await check_store(client, NAMESPACE)
        finally:
            await client.close()
            self._fleet.close()
        problems += [f"process {pid} is still there" for pid in self._fleet.orphans()]
        states = {f"{state.lower() or 'unanswered'}": 0 for state in (one.state for one in self._book.sent)}
        for one in self._book.sent:
            states[one.state.lower() or "unanswered"] += 1
        counts = {"messages": len(self._book.sent), **states, "retries": self._book.counts["retries"]}
        counts["pushes"] = self._pushes
        return Verdict(problems, counts, dict(self._faults.done))

    async def _storm(self, http: httpx.AsyncClient, watch: CapWatch, hook: str) -> None:
        """The load under faults; then the faults end, and everything that is under way must come to its end."""
        stop = asyncio.Event()
        contexts = [f"{self._rng.getrandbits(64):016x}" for _ in range(self._options.contexts)]
        # Two orchestrators for each context: their turns wait for each other.
        talkers = [
            Orchestrator(number, contexts[number % len(contexts)], *self._hands(http), self._book, hook)
            for number in range(2 * len(contexts))
        ]
        talks = [asyncio.create_task(talker.run()) for talker in talkers]
        others = [
            asyncio.create_task(self._faults.run(stop)),
            asyncio.create_task(watch.run(self._book.stopping)),
            asyncio.create_task(self._progress(stop)),
        ]
        await asyncio.wait(talks, timeout=self._options.seconds)
        stop.set()
        await asyncio.gather(*others[:1])
        self._book.stop(self._options.settle_seconds)
        # A stream of a turn that never ends is kept open for ever, as it should: its reader is called back.
        _, stuck = await asyncio.wait(talks, timeout=self._options.settle_seconds + READ_SECONDS)
        for talk in stuck:
            talk.cancel()
        await asyncio.wait(talks)
        await asyncio.gather(*others, *(talk for talk in talks if not talk.cancelled()))
        if not stuck and not self._book.problems:
            async with asyncio.timeout(self._options.settle_seconds):
                await self._cancel_what_waits(http)

    def _hands(self, http: httpx.AsyncClient) -> tuple[Wire, random.Random]:
        rng = random.Random(self._rng.getrandbits(64))
        return Wire(http, self._fleet.urls, rng), rng

    async def _cancel_what_waits(self, http: httpx.AsyncClient) -> None:
        """Questions nobody answered keep their contexts live, as they should; they are let go."""
        wire, _ = self._hands(http)
        for task in {one.task for one in self._book.sent if one.text.startswith("ask") and one.task}:
            for _ in range(20):
                answer = await wire.call("CancelTask", {"id": task})
                if answer is not None and answer.status != 503:
                    break
                await asyncio.sleep(0.1)

    async def _until_ready(self, http: httpx.AsyncClient) -> None:
        began = time.monotonic()
        client = Client(self._fleet.engine.url)
        try:
            waiting = list(self._fleet.urls)
            while waiting:
                self._fleet.check_alive(began)
                try:
                    await client.call("PING")
                    if (await http.get(f"{waiting[0]}/readyz")).status_code == 200:
                        waiting.pop(0)
                        continue
                except (OSError, StoreError, httpx.TransportError):
                    pass
                await asyncio.sleep(0.1)
        finally:
            await client.close()

    async def _progress(self, stop: asyncio.Event) -> None:
        began = time.monotonic()
        while not stop.is_set():
            try:
                async with asyncio.timeout(PROGRESS_SECONDS):
                    await stop.wait()
            except TimeoutError:
                counts = self._book.counts
                self._say(
                    f"chaos: {time.monotonic() - began:3.0f} s  turns {counts['turns']}  retries {counts['retries']}  "
                    f"{_listed(self._faults.done)}"
                )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "nothing"
