"""Fleets of real worker processes that serve assistants, on one real Valkey."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stores import open_store
from tests.assistant.tea import TeaRoom
from tests.contract.conftest import assert_every_key_lapses
from tests.support.client import Speaker, Wire, new_client
from tests.support.engines import Engine, engine
from tests.support.fleet import ROOT, Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.wait import wait_found

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@contextmanager
def serving(real_engine: Engine, assistant: Path, folder: Path, *, workers: int = 2, **own: Any) -> Iterator[Fleet]:
    settings = {
        "redis_url": real_engine.url,
        "namespace": f"a{uuid.uuid4().hex[:8]}",
        "assistant": str(assistant),
        "heartbeat_seconds": 0.2,
        "presumed_dead_seconds": 5,
        "cancel_wait_seconds": 5,
        "max_contexts": 0,
        **own,
    }
    with running_fleet(workers, settings, folder, agent="") as fleet:
        yield fleet


@pytest.fixture(scope="session")
def bank(real_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three workers, so that each turn of a dialogue meets another one than the two before."""
    with serving(real_engine, EXAMPLES / "bank", tmp_path_factory.mktemp("bank"), workers=3) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def clinic(real_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    allowed = ["patient_id", "specialty", "day", "day_part", "booking_ref"]
    folder = tmp_path_factory.mktemp("clinic")
    with serving(real_engine, EXAMPLES / "clinic", folder, slot_allowlist=allowed) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def curt_clinic(real_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The clinic without conversation repair, and without slots that orchestrators may set."""
    folder = tmp_path_factory.mktemp("curt")
    with serving(
        real_engine, EXAMPLES / "clinic", folder, include_conversation_repair=False, slot_allowlist=[]
    ) as fleet:
        yield fleet


class Tea:
    """A fleet on a folder that can be changed while it runs."""

    def __init__(self, room: TeaRoom, fleet: Fleet) -> None:
        self.room = room
        self.fleet = fleet

    async def reload(self) -> list[str]:
        """Asks the fleet to load again and waits for all; the errors that workers report."""
        store = open_store(self.fleet.settings["redis_url"], self.fleet.settings["namespace"])
        wish = uuid.uuid4().hex

        async def followed() -> list[dict[str, str]] | None:
            infos = [json.loads(info)["loaded"] for info in (await store.fleet.workers()).values() if info]
            done = [loaded for loaded in infos if loaded.get("generation") == wish]
            return done if len(done) == len(self.fleet.nodes) else None

        try:
            await store.fleet.ask_reload(wish)
            loaded = await wait_found(followed, what="the reload")
        finally:
            await store.close()
        return [one["error"] for one in loaded if one["error"]]

    def is_brewing(self, context: str) -> bool:
        return (self.fleet.folder / f"brewing-{context}").exists()

    def open_gate(self, context: str) -> None:
        (self.fleet.folder / f"gate-{context}").touch()


@pytest.fixture(scope="session")
def tea_room(real_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tea]:
    folder = tmp_path_factory.mktemp("tea")
    room = TeaRoom(folder / "tea-room")
    with serving(real_engine, room.folder, folder) as fleet:
        yield Tea(room, fleet)


@pytest.fixture
async def tea(tea_room: Tea) -> AsyncIterator[Tea]:
    """The tea room as it was in the beginning."""
    yield tea_room
    tea_room.room.reset()
    assert await tea_room.reload() == []


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as client:
        yield client


class Talk:
    """One conversation, each message sent to the next worker in turn."""

    def __init__(self, http: httpx.AsyncClient, fleet: Fleet, wire: Wire) -> None:
        self.context = str(uuid.uuid4())
        self.speakers = [Speaker(http, node.url, wire) for node in fleet.nodes]
        self.wire = wire
        self._turn = -1

    @property
    def next(self) -> Speaker:
        """The worker whose turn it is."""
        self._turn += 1
        return self.speakers[self._turn % len(self.speakers)]

    def parts(self, text: str | None, *data: dict[str, Any]) -> list[dict[str, Any]]:
        kind = {"text": {"kind": "text"}, "data": {"kind": "data"}} if self.wire == "0.3" else {"text": {}, "data": {}}
        said = [{**kind["text"], "text": text}] if text is not None else []
        return [*said, *({**kind["data"], "data": one} for one in data)]


@pytest.fixture
async def every_key_lapses(real_engine: Engine, bank: Fleet) -> AsyncIterator[None]:
    yield
    store = open_store(real_engine.url, bank.settings["namespace"])
    await assert_every_key_lapses(store)
    await store.close()
