"""What a worker knows of its own admissions, on which the heart's adoption of lost ones relies."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from server.agents import Agent, Outcome, Turn, input_required
from server.protocol.model import Message, Part, Role, SendMessage
from server.turns.admission import Admissions
from server.turns.hub import Hub
from server.turns.outbox import Bounds
from server.turns.record import load_asked, task_of
from server.turns.worker import Worker
from stores import Store, open_store
from stores.records import Admission, AdmitReply, Admitted
from tests.support.engines import Engine, engine

CALLER = "c" * 32


class Asking(Agent):
    async def run(self, turn: Turn) -> Outcome:
        return input_required("and then?")


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture
async def store(real_engine: Engine) -> AsyncIterator[Store]:
    opened = open_store(real_engine.url, "admissions")
    yield opened
    await opened.close()


def message(name: str, task_id: str | None = None) -> SendMessage:
    return SendMessage(Message(name, Role.USER, (Part("text", name),), "context", task_id))


async def test_an_answered_admission_does_not_hide_another_of_the_same_task(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(store, Asking(), Hub(16), Bounds())
    admissions = Admissions(worker)
    _, first, _ = await admissions.admit(CALLER, message("first"))
    assert isinstance(first, Admitted)
    task_id = first.ticket.task_id
    await worker.start_turn(first.ticket).end()

    late, admit_turn = asyncio.Event(), store.turns.admit_turn

    async def admit_late(worker_id: str, asked: Admission) -> AdmitReply:
        reply = await admit_turn(worker_id, asked)
        if asked.mid == asked.context.message("slow"):
            await late.wait()
        return reply

    monkeypatch.setattr(store.turns, "admit_turn", admit_late)
    slow = asyncio.create_task(admissions.admit(CALLER, message("slow", task_id)))
    quick = asyncio.create_task(admissions.admit(CALLER, message("quick", task_id)))
    await quick

    assert task_id in worker.admitting, "the heart would take the slow one's turn for lost, and run it twice"
    late.set()
    await slow
    assert not worker.admitting


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_opening_is_what_the_ticket_would_be_read_as(store: Store, streaming: bool) -> None:
    worker = Worker(store, Asking(), Hub(16), Bounds())
    parts = (Part("text", "héllo"), Part("url", "https://e.example/f", "f", "text/plain"), Part("raw", "aGk="))
    send = SendMessage(
        Message(str(uuid.uuid4()), Role.USER, parts, None, None, None, ("x",), ("t",)), True, 3, ("text",)
    )
    _, reply, opening = await Admissions(worker).admit(CALLER, send, streaming=streaming)
    assert isinstance(reply, Admitted)
    assert opening is not None
    assert opening.task == task_of(reply.ticket.view)
    assert opening.asked == load_asked(reply.ticket.input)


@pytest.mark.parametrize(
    "changes",
    [{"metadata": {"a": 1}}, {"parts": (Part("data", {"a": 1}),)}, {"parts": (Part("text", "t", metadata={}),)}],
)
async def test_what_an_agent_could_change_is_not_shared_with_its_task(store: Store, changes: dict[str, Any]) -> None:
    worker = Worker(store, Asking(), Hub(16), Bounds())
    said = replace(message(str(uuid.uuid4())).message, context_id=None, **changes)
    _, reply, opening = await Admissions(worker).admit(CALLER, SendMessage(said))
    assert isinstance(reply, Admitted)
    assert opening is None
