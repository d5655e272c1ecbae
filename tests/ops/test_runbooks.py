"""Every runbook has its five parts, and every command in it works, unless it says why it is not run here."""

from __future__ import annotations

import asyncio
import re
import shlex
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from server.cli import main
from stores import open_store
from stores.keys import DeliveryRef
from stores.records import Limits
from tests.contract.builders import CALLER, WORKER, running
from tests.ops.conftest import Nonstick, unique
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.engines import Engine
from tests.support.fleet import ROOT, Fleet
from tests.support.wait import wait_until

FOLDER = ROOT / "docs/runbooks"
BOOKS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PARTS = ["Symptom", "Check", "Cause", "Fix", "It worked when"]
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<why>.+?) -->\n)?^ *```console\n(?P<body>.*?)^ *```", re.MULTILINE | re.DOTALL
)
# What an exit code of 1 says of these is about the fleet, not about the command: there is nobody alive, or trouble.
TELLING = {"doctor"}


@dataclass(frozen=True, slots=True)
class Command:
    book: str
    line: str

    def __str__(self) -> str:
        return f"{self.book}: {self.line}"


def commands() -> list[Command]:
    found: dict[Command, None] = {}
    for path in BOOKS:
        for match in BLOCK.finditer(path.read_text()):
            for line in match["body"].splitlines():
                command = Command(path.stem, line.strip().removeprefix("$ "))
                if match["why"] is None:
                    found[command] = None
    return list(found)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_runbook_has_its_five_parts_and_a_command_to_check_with(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS
    parts = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert "```console" in parts[1], "nothing to check with"
    assert "```console" in parts[4], "nothing to see that it worked with"
    for block in re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL):
        if block[0] == "console":
            assert all(line.strip().startswith("$ ") for line in block[1].strip().splitlines()), block
    for linked in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / linked).exists(), f"{path.name} links to {linked}"


def test_every_runbook_is_listed() -> None:
    index = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == {path.name for path in BOOKS}


def test_every_command_is_of_a_kind_that_can_be_run_or_says_why_not() -> None:
    assert {shlex.split(command.line)[0] for command in commands()} <= {"nonstick", "curl"}


@pytest.fixture
async def letters(real_engine: Engine) -> AsyncIterator[tuple[str, str]]:
    """A namespace of its own with a dead letter; its task."""
    store = open_store(real_engine.url, f"o{uuid.uuid4().hex[:8]}", Limits(push_configs=4))
    ticket = await running(store)
    ref = DeliveryRef(CALLER, ticket.task_id)
    _, fence = await store.push.put_push_config(WORKER, ref, "one", "{}")
    book = await store.push.read_push_configs(ref)
    assert book is not None
    await store.push.bury_push(WORKER, ref, fence, book.configs[0], "7-1", letter="{}", always=True)
    yield store.keys.namespace, ticket.task_id
    await store.close()


@pytest.mark.parametrize("command", commands(), ids=str)
async def test_a_command_of_a_runbook_works(
    command: Command,
    fleet: Fleet,
    speaker: Speaker,
    ledger: Ledger,
    real_engine: Engine,
    nonstick: Nonstick,
    letters: tuple[str, str],
) -> None:
    words = shlex.split(command.line)
    namespace = letters[0] if words[1] == "push" else fleet.settings["namespace"]
    makers: dict[str, Callable[[], Awaitable[str]]] = {
        "$TASK": lambda: _task(speaker, ledger),
        "$CONTEXT": lambda: _context(speaker),
        "$WORKER": lambda: _worker(nonstick, namespace),
        "$LETTER_TASK": lambda: _known(letters[1]),
        "$URL": lambda: _known(fleet.nodes[0].url),
        "$REDIS_URL": lambda: _known(real_engine.url),
    }
    for place, word in enumerate(words):
        for name, make in makers.items():
            if re.search(rf"{re.escape(name)}\b", word):
                words[place] = word.replace(name, await make())
    if words[0] == "curl":
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        assert (process.returncode, bool(out)) == (0, True)
        return
    if words[1] == "check":
        assert await asyncio.to_thread(main, words[1:]) == 0
        return
    done = await nonstick(*words[1:], namespace=namespace)
    assert done.code == 0 or (done.code == 1 and words[1] in TELLING), done
    assert done.out


async def _known(value: str) -> str:
    return value


async def _task(speaker: Speaker, ledger: Ledger) -> str:
    context = unique("book")
    task = (await speaker.send(f"hold {unique('gate')}", context=context, wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", context=context), what="the turn's start")
    return task


async def _context(speaker: Speaker) -> str:
    context = unique("book")
    await speaker.send("ask", context=context)
    return context


async def _worker(nonstick: Nonstick, namespace: str) -> str:
    listed = await nonstick("workers", "list", "--json", namespace=namespace)
    return str(next(worker["id"] for worker in listed.data if worker["standing"] == "alive"))
