"""What a worker knows of its own admissions, on which the heart's adoption of lost ones relies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from server.agents import Agent, Outcome, Turn, input_required
from server.protocol.model import Message, Part, Role, SendMessage
from server.turns.admission import Admissions
from server.turns.hub import Hub
from server.turns.outbox import Bounds
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
    _, first = await admissions.admit(CALLER, message("first"))
    assert isinstance(first, Admitted)
    task_id = first.ticket.task_id
    await worker.start_turn(first.ticket).ended

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
