"""Limits through the whole server: each caller's own, and those that every request has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from server.config.settings import Settings
from tests.auth.support import make_keys
from tests.http.doors import Door, House, serving
from tests.support.client import WIRES, Answer, Speaker, Wire
from tests.support.engines import Engine, engine
from tests.support.wait import wait_found, wait_until


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    return Door("HS256", make_keys(), tmp_path_factory.mktemp("keys"))


class Room:
    """A guarded server with two callers."""

    def __init__(self, house: House, alice: Speaker, mallory: Speaker) -> None:
        self.house = house
        self.alice = alice
        self.mallory = mallory


@asynccontextmanager
async def room(real_engine: Engine, folder: Path, door: Door, wire: Wire = "1.0", **own: Any) -> AsyncIterator[Room]:
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(serving(real_engine, folder, auth=door.settings, **own))
        alice = await stack.enter_async_context(house.speaker(door.headers("alice"), wire))
        mallory = await stack.enter_async_context(house.speaker(door.headers("mallory"), wire))
        yield Room(house, alice, mallory)


def assert_limited(answer: Answer, setting: str) -> None:
    """HTTP 429, our code, when to come again, and which limit it was."""
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    error = answer.body["error"]
    assert setting in error["message"]
    assert "RATE_LIMIT" in json.dumps(error)
    if answer.wire == "rest":
        assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
    else:
        assert error["code"] == -32053


def test_all_of_them_are_off_by_default() -> None:
    names = [name for name in Settings.model_fields if name.startswith("caller_max_")]
    assert len(names) == 4
    assert all(Settings.model_fields[name].default == 0 for name in names)
    assert all("0 means no limit" in str(Settings.model_fields[name].description) for name in names)


@pytest.mark.parametrize("wire", WIRES)
async def test_running_turns(real_engine: Engine, tmp_path: Path, door: Door, wire: Wire) -> None:
    async with room(real_engine, tmp_path, door, wire, caller_max_running_turns=1) as at:
        held = (await at.alice.send("hold gate", wait=False)).task
        assert_limited(await at.alice.send("echo"), "caller_max_running_turns")
        async with at.alice.stream("echo") as stream:
            assert not stream.is_stream
            assert_limited(await stream.answer(), "caller_max_running_turns")
        assert (await at.mallory.send("echo")).task.state == "completed"
        at.house.ledger.open("gate")

        async def ended() -> bool:
            return (await at.alice.get(held.id)).task.state == "completed"

        await wait_found(ended)
        assert (await at.alice.send("echo")).task.state == "completed"


async def test_a_caller_at_its_limit_can_still_read_and_cancel(real_engine: Engine, tmp_path: Path, door: Door) -> None:
    async with room(real_engine, tmp_path, door, caller_max_running_turns=1) as at:
        asked = (await at.alice.send("ask")).task
        held = (await at.alice.send("hold gate", wait=False)).task
        assert_limited(await at.alice.send("more", task=asked.id), "caller_max_running_turns")
        assert (await at.alice.get(held.id)).task.state == "working"
        assert (await at.alice.cancel(asked.id)).task.state == "canceled"
        assert (await at.alice.cancel(held.id)).task.state == "canceled"
        assert (await at.alice.send("echo")).task.state == "completed"


async def test_live_contexts(real_engine: Engine, tmp_path: Path, door: Door) -> None:
    async with room(real_engine, tmp_path, door, caller_max_contexts=2) as at:
        first = (await at.alice.send("ask")).task
        await at.alice.send("ask")
        assert_limited(await at.alice.send("ask"), "caller_max_contexts")
        assert (await at.mallory.send("ask")).task.state == "input_required"
        assert (await at.alice.send("echo", task=first.id)).task.state == "completed"
        assert (await at.alice.send("ask")).task.state == "input_required"


async def test_stored_tasks(real_engine: Engine, tmp_path: Path, door: Door) -> None:
    async with room(real_engine, tmp_path, door, caller_max_stored_tasks=2) as at:
        sent = at.alice.send_params("echo", message_id="0b6b7d0e-6b0c-4c5e-9d8f-0a1b2c3d4e5f")
        first = (await at.alice.call("send", sent)).task
        asked = (await at.alice.send("ask")).task
        assert_limited(await at.alice.send("echo"), "caller_max_stored_tasks")
        assert (await at.alice.call("send", sent)).task.id == first.id
        assert (await at.alice.send("echo", task=asked.id)).task.state == "completed"
        assert (await at.mallory.send("echo")).task.state == "completed"


@pytest.mark.parametrize("wire", WIRES)
async def test_requests_per_second(real_engine: Engine, tmp_path: Path, door: Door, wire: Wire) -> None:
    async with room(real_engine, tmp_path, door, wire, caller_max_requests_per_second=5) as at:
        answers = await asyncio.gather(*(at.alice.get("1") for _ in range(12)))
        refused = [answer for answer in answers if answer.status == 429]
        assert 1 <= len(refused) <= 7
        for answer in refused:
            assert_limited(answer, "caller_max_requests_per_second")
        assert (await at.mallory.get("1")).fault.code == -32001

        async def let_in() -> bool:
            return (await at.alice.get("1")).status != 429

        await wait_found(let_in)


async def test_the_rate_counts_operations_and_spares_card_and_probes(
    real_engine: Engine, tmp_path: Path, door: Door
) -> None:
    async with room(real_engine, tmp_path, door, caller_max_requests_per_second=1) as at:
        for path in ("/.well-known/agent-card.json", "/healthz", "/readyz", "/status") * 3:
            assert (await at.alice.http.get(path)).status_code == 200


async def test_the_rate_is_asked_before_the_body_is_read(real_engine: Engine, tmp_path: Path, door: Door) -> None:
    asked: list[str] = []

    async def body() -> AsyncIterator[bytes]:
        asked.append("the body")
        yield b"{}"

    async with room(real_engine, tmp_path, door, caller_max_requests_per_second=1) as at:

        async def refused() -> bool:
            asked.clear()
            return (await at.alice.http.post("/", content=body())).status_code == 429

        await wait_found(refused)
        assert not asked


@pytest.mark.parametrize("wire", WIRES)
async def test_streams_of_a_worker(real_engine: Engine, tmp_path: Path, door: Door, wire: Wire) -> None:
    async with room(real_engine, tmp_path, door, wire, max_streams=1) as at:
        message = at.alice.send_params("echo late", message_id="m1", context="c1")
        held = (await at.alice.send("work gate", wait=False)).task
        following = asyncio.create_task(subscribed(at.alice, held.id))
        await wait_until(lambda: at.house.app.state.node.streams.open == 1)
        async with at.alice._open("stream", message, None) as stream:
            answer = await stream.answer()
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert "STREAM_LIMIT" in json.dumps(answer.body)
        at.house.ledger.open("gate")
        assert (await following)[-1] == "completed"
        await wait_until(lambda: at.house.app.state.node.streams.open == 0)
        # Nothing of the refused message was kept: it is accepted now, and not taken for a repeat.
        async with at.alice._open("stream", message, None) as stream:
            assert (await stream.rest())[-1].state == "completed"


async def subscribed(speaker: Speaker, task_id: str) -> list[str]:
    async with speaker.subscribe(task_id) as stream:
        return [item.state for item in await stream.rest() if item.kind in ("task", "status")]


async def test_a_message_of_too_many_parts_or_levels_is_refused(
    real_engine: Engine, tmp_path: Path, door: Door
) -> None:
    async with room(real_engine, tmp_path, door, max_parts=3, max_json_depth=16, max_body_bytes=4096) as at:
        for wire in WIRES:
            alice = Speaker(at.alice.http, at.alice.base, wire)
            part = alice.message()["parts"][0]
            assert (await alice.send("echo", parts=[part] * 3)).status == 200
            assert (await alice.send("echo", parts=[part] * 4)).fault.code == -32602
            deep: Any = "bottom"
            for _ in range(20):
                deep = {"d": deep}
            assert (await alice.send("echo", metadata=deep)).body["error"]["message"].count("max_json_depth") == 1
            assert (await alice.send("x" * 5000)).status == 413
