"""An accepted turn always ends, truthfully, also when its worker does not."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
import uuid
from pathlib import Path

import httpx
import pytest

from server.auth.caller import ANONYMOUS
from server.protocol import documents
from server.protocol.model import Message, Part, Role, SendMessage, State, Status, Task
from server.turns.record import Asked, dump_asked
from stores import Store
from stores.keys import ContextRef, new_task_id
from stores.records import Admission, Admitted
from tests.processes.conftest import Callers, queue_is, quick_settings
from tests.support.agents import Ledger
from tests.support.client import WIRES, Wire
from tests.support.engines import Engine
from tests.support.fleet import Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.lapse import let_time_pass
from tests.support.wait import wait_for_state, wait_found, wait_until

# What the product promises from a worker's death to the end of its turns.
PROMISED_SECONDS = 10.0


@pytest.mark.parametrize("wire", WIRES)
async def test_the_turn_of_a_killed_worker_fails_and_its_queue_runs_elsewhere(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store, wire: Wire
) -> None:
    victim, other, third, _ = fleet.nodes
    context, message = uuid.uuid4().hex, str(uuid.uuid4())
    running = asyncio.create_task(at(victim, wire).send("work never", context=context, message_id=message))
    await wait_until(lambda: ledger.notes("start", context=context))
    task_id = ledger.notes("start", context=context)[0]["task"]
    queued = [asyncio.create_task(at(other, wire).send("echo 1", context=context))]
    await wait_found(lambda: queue_is(store, context, 1))
    queued.append(asyncio.create_task(at(third, wire).send("echo 2", context=context)))

    async with at(third, wire).subscribe(task_id) as watching:
        assert (await watching.next()).kind == "task"
        victim.kill()
        killed = time.monotonic()
        seen = (await watching.rest())[-1]
        assert time.monotonic() - killed < PROMISED_SECONDS

    with pytest.raises(httpx.TransportError):
        await running
    assert (seen.kind, seen.state) == ("status", "failed")
    assert seen.data["error_type"] == "worker_lost"
    done = [answer.task for answer in await asyncio.gather(*queued)]
    assert [task.state for task in done] == ["completed", "completed"]
    assert {note["pid"] for note in ledger.notes("end", context=context)} <= {node.pid for node in fleet.nodes[1:]}
    retried = (await at(other, wire).send("work never", context=context, message_id=message)).task
    assert (retried.id, retried.state, retried.data["error_type"]) == (task_id, "failed", "worker_lost")
    assert len(ledger.notes("start", message=message)) == 1


async def test_r11_a_worker_that_slept_through_its_death_can_write_nothing(
    fleet: Fleet, at: Callers, ledger: Ledger
) -> None:
    sleeper, other = fleet.nodes[:2]
    context, half = uuid.uuid4().hex, uuid.uuid4().hex
    running = asyncio.create_task(at(sleeper).send(f"stream 10 {half}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))
    task_id = ledger.notes("start", context=context)[0]["task"]
    await wait_found(lambda: pieces_stored(at, fleet, task_id))

    sleeper.pause()
    try:
        failed = await wait_for_state([at(other)], task_id, "failed")
        following = (await at(other).send("echo next", context=context)).task
        assert following.data["heard"] == ["echo next"]
        ledger.open(half)
    finally:
        sleeper.resume()

    # Its own client learns what is on record, and its agent is stopped or finds that it can't write.
    assert (await running).task.raw == failed.raw
    assert (await at(other).get(task_id)).task.raw == failed.raw
    assert (await at(other).send("echo again", context=context)).task.data["heard"] == ["echo next", "echo again"]
    # It goes on under a new incarnation.
    assert (await at(sleeper).send("echo", context=context)).task.data["pid"] == sleeper.pid


async def pieces_stored(at: Callers, fleet: Fleet, task_id: str) -> bool:
    return bool((await at(fleet.nodes[1]).get(task_id)).task.artifacts)


async def test_r09_a_turn_whose_admission_was_never_answered_is_found_and_run(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store, http: httpx.AsyncClient
) -> None:
    """The store has admitted it for a live worker that does not know: what a broken connection leaves behind."""
    worker = (await http.get(f"{fleet.nodes[0].url}/status")).json()["worker"]
    context_id, message_id = uuid.uuid4().hex, str(uuid.uuid4())
    context = ContextRef.of(ANONYMOUS.key, context_id)
    task_id = new_task_id(context)
    message = Message(message_id, Role.USER, (Part("text", "echo unheard"),), context_id, task_id)
    task = Task(task_id, context_id, Status(State.SUBMITTED, 0), history=(message,))
    admission = Admission(
        context=context,
        context_id=context_id,
        mid=context.message(message_id),
        token=secrets.token_hex(8),
        task_id=task_id,
        digest="unknown",
        input=dump_asked(Asked("send", SendMessage(message))),
        doc=documents.dump_task(task),
    )
    assert isinstance(await store.turns.admit_turn(worker, admission), Admitted)

    behind = (await at(fleet.nodes[1]).send("echo behind", context=context_id)).task

    assert behind.data["heard"] == ["echo unheard", "echo behind"]
    assert (await at(fleet.nodes[2]).get(task_id)).task.state == "completed"
    assert len(ledger.notes("start", task=task_id)) == 1


async def test_a_replay_safe_turn_runs_again_elsewhere(real_engine: Engine, at: Callers) -> None:
    with tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder:
        ledger = Ledger(Path(folder))
        with running_fleet(2, quick_settings(real_engine), Path(folder), agent="ReplaySafe") as pair:
            victim, other = pair.nodes
            task = (await at(victim).send("work gate", wait=False)).task
            await wait_until(lambda: ledger.notes("start", task=task.id))
            victim.kill()
            ledger.open("gate")

            done = await wait_for_state([at(other)], task.id, "completed")

            assert done.data["heard"] == ["work gate"]
            runs = ledger.notes("start", task=task.id)
            assert [(run["attempt"], run["pid"]) for run in runs] == [(1, victim.pid), (2, other.pid)]
            assert runs[0]["fence"] < runs[1]["fence"]


@pytest.mark.parametrize("seconds", [0, 3600], ids=["a moment", "an hour"])
async def test_r55_a_fleet_that_was_down_as_a_whole_recovers_everything(
    real_engine: Engine, at: Callers, seconds: float
) -> None:
    with tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder:
        ledger = Ledger(Path(folder))
        settings = quick_settings(real_engine)
        with running_fleet(2, settings, Path(folder)) as pair:
            context, message = uuid.uuid4().hex, str(uuid.uuid4())
            asking = (await at(pair.nodes[0]).send("ask", context=context)).task
            running = (await at(pair.nodes[0]).send("hold never", context=context, wait=False, message_id=message)).task
            queued = (await at(pair.nodes[1]).send("echo", context=context, wait=False)).task
            await wait_until(lambda: ledger.notes("start", task=running.id))
            for node in list(pair.nodes):
                node.kill()
            if seconds:
                # The heartbeats are long gone; what they were about is not.
                assert await let_time_pass(real_engine.url, settings["namespace"], seconds) >= len(pair.nodes)
            pair.start(1)

            failed = await wait_for_state(at.all(pair), running.id, "failed")
            assert failed.data["error_type"] == "worker_lost"
            done = await wait_for_state(at.all(pair), queued.id, "completed")
            assert done.data["heard"] == ["ask", "echo"]
            [caller] = at.all(pair)
            assert (await caller.send("echo answer", task=asking.id)).task.state == "completed"
            retried = (await caller.send("hold never", context=context, message_id=message)).task
            assert (retried.id, retried.state) == (running.id, "failed")
            assert len(ledger.notes("start", message=message)) == 1


async def test_r50_a_worker_that_is_asked_to_end_finishes_its_turn_and_hands_its_queue_over(
    fleet: Fleet, at: Callers, ledger: Ledger, store: Store
) -> None:
    leaver = fleet.nodes[0]
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    running = asyncio.create_task(at(leaver).send(f"hold {gate}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context))
    queued = asyncio.create_task(at(leaver).send("echo queued", context=context))
    await wait_found(lambda: queue_is(store, context, 1))

    leaver.terminate()
    await wait_found(lambda: not_ready(leaver.url))
    ledger.open(gate)

    assert (await running).task.state == "completed"
    task = (await queued).task
    assert task.state == "completed"
    assert task.data["pid"] != leaver.pid
    assert await leaver.gone() == 0


async def not_ready(url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{url}/readyz")).status_code == 503


async def test_r51_a_stream_on_a_leaving_worker_is_closed_with_a_hint_and_resumed_without_a_gap(
    real_engine: Engine, at: Callers
) -> None:
    with tempfile.TemporaryDirectory(prefix="ns-fleet-") as folder:
        ledger = Ledger(Path(folder))
        with running_fleet(2, quick_settings(real_engine, drain_seconds=1), Path(folder)) as pair:
            leaver, other = pair.nodes
            task = (await at(other).send("stream 10 half", wait=False)).task
            await wait_until(lambda: ledger.notes("start", task=task.id))
            async with at(leaver).subscribe(task.id) as reader:
                snapshot = await reader.next()
                leaver.terminate()
                while (frame := await reader.frame()) is not None:
                    assert frame.comment is not None or frame.item.kind in ("artifact", "status")
                assert "Last-Event-ID" in (reader.seen[-1].comment or "")
                missed = [frame.item.text for frame in reader.seen[1:] if frame.comment is None]
                cursor = reader.last_id
            ledger.open("half")
            async with at(other).subscribe(task.id, last=cursor) as resumed:
                rest = await resumed.rest()
            pieces = [*snapshot.artifacts, *missed, *(item.text for item in rest if item.kind == "artifact")]
            assert "".join(pieces) == "".join(f"{number} " for number in range(10))
