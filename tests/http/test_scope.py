"""Another caller's things do not exist: every operation on them answers what it answers for things that never were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from server.protocol.operations import Operation
from tests.auth.support import make_keys, token
from tests.http.doors import BASE, Door, House, serving
from tests.support.client import WIRES, Item, Speaker, Wire
from tests.support.engines import Engine, engine, free_port
from tests.support.wait import wait_until

HOOK = f"http://127.0.0.1:{free_port()}/hook"  # nobody listens there, and nobody needs to


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@dataclass(frozen=True)
class Room:
    """Alice with a task in every state, and Mallory who knows all their ids."""

    house: House
    alice: Speaker
    mallory: Speaker
    done: Item
    asked: Item
    running: Item

    @property
    def tasks(self) -> dict[str, Item]:
        return {"done": self.done, "asked": self.asked, "running": self.running}


@pytest.fixture(params=WIRES)
async def room(request: pytest.FixtureRequest, real_engine: Engine, tmp_path: Path) -> AsyncIterator[Room]:
    wire: Wire = request.param
    door = Door("HS256", make_keys(), tmp_path)
    own = {"push_notifications_enabled": True, "push_allow_private_targets_for_tests_only": True}
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(serving(real_engine, tmp_path, auth=door.settings, **own))
        alice = await stack.enter_async_context(house.speaker(door.headers("alice"), wire))
        mallory = await stack.enter_async_context(house.speaker(door.headers("mallory"), wire))
        done = (await alice.send("echo secret", context="c-done", message_id="m-done")).task
        asked = (await alice.send("ask secret", context="c-asked", message_id="m-asked")).task
        running = (await alice.send("work gate", context="c-run", message_id="m-run", wait=False)).task
        await wait_until(lambda: house.ledger.notes("start", text="work gate"))
        for task in (done, asked, running):
            made = await alice.http.send(PROBES["create push"](alice, task.id, task.context))
            assert made.status_code == 200, made.text
            assert "error" not in made.json(), made.text
        yield Room(house, alice, mallory, done, asked, running)
        house.ledger.open("gate")


Probe = Callable[[Speaker, str, str], httpx.Request]


def built(operation: str, **headers: str) -> Probe:
    return lambda who, task, _: who._request(operation, {"id": task}, dict(headers))


def sent(operation: str, *, with_context: bool = False) -> Probe:
    def build(who: Speaker, task: str, context: str) -> httpx.Request:
        params = who.send_params("echo", message_id="mine", task=task, context=context if with_context else None)
        return who._request(operation, params, {})

    return build


def push(name: str) -> Probe:
    """One of the four operations on callbacks, in the words of the wire."""

    def build(who: Speaker, task: str, _: str) -> httpx.Request:
        config = {"id": "hook", "url": HOOK}
        if who.wire == "rest":
            verb = {"create": "POST", "delete": "DELETE"}.get(name, "GET")
            path = f"/tasks/{task}/pushNotificationConfigs" + ("" if name in ("create", "list") else "/hook")
            body = config if name == "create" else None
            return who.http.build_request(verb, BASE + path, json=body, headers={"A2A-Version": "1.0"})
        operation = {
            "create": Operation.CREATE_PUSH_CONFIG,
            "get": Operation.GET_PUSH_CONFIG,
            "list": Operation.LIST_PUSH_CONFIGS,
            "delete": Operation.DELETE_PUSH_CONFIG,
        }[name].value
        params: dict[str, Any]
        if who.wire == "1.0":
            own: dict[str, dict[str, str]] = {"create": config, "list": {}}
            params = {"taskId": task} | own.get(name, {"id": "hook"})
            method, headers = operation.v1_0[0], {"A2A-Version": "1.0"}
        else:
            params = {"taskId": task, "pushNotificationConfig": config} if name == "create" else {"id": task}
            params |= {} if name in ("create", "list") else {"pushNotificationConfigId": "hook"}
            method, headers = operation.v0_3[0], {}
        envelope = {"jsonrpc": "2.0", "id": "r1", "method": method, "params": params}
        return who.http.build_request("POST", BASE, json=envelope, headers=headers)

    return build


PROBES: dict[str, Probe] = {
    "send": sent("send"),
    "send with the context": sent("send", with_context=True),
    "stream": sent("stream"),
    "stream with the context": sent("stream", with_context=True),
    "get": built("get"),
    "cancel": built("cancel"),
    "subscribe": built("subscribe"),
    "resubscribe": built("subscribe", **{"Last-Event-ID": "1-1"}),
    "resubscribe from the start": built("subscribe", **{"Last-Event-ID": "nonsense"}),
    **{f"{name} push": push(name) for name in ("create", "get", "list", "delete")},
}


def absent(task_id: str) -> str:
    """An id that never was, which leads to the same place in the store."""
    never = f"{uuid4().hex[:8]}{task_id[8:]}"
    assert never != task_id
    return never


async def seen(who: Speaker, probe: Probe, task_id: str, context: str) -> tuple[int, list[tuple[str, str]], str]:
    """Everything a caller can see of an answer, with the id it asked for blotted out."""
    async with asyncio.timeout(20):
        answer = await who.http.send(probe(who, task_id, context))
    return answer.status_code, sorted(answer.headers.items()), answer.text.replace(task_id, "<id>")


def test_the_matrix_has_every_operation_on_a_task() -> None:
    names = {name.partition(" ")[0] for name in PROBES}
    assert names == {"send", "stream", "get", "cancel", "subscribe", "resubscribe", "create", "list", "delete"}
    # The two that name no task have tests of their own below.
    assert len(Operation) - len({Operation.LIST_TASKS, Operation.GET_EXTENDED_CARD}) == 9


async def test_another_callers_task_is_as_absent_as_one_that_never_was(room: Room) -> None:
    before = {name: (await room.alice.get(task.id)).body for name, task in room.tasks.items()}
    hooks = [
        (await room.alice.http.send(PROBES["list push"](room.alice, one.id, ""))).text for one in room.tasks.values()
    ]
    for name, probe in PROBES.items():
        for state, task in room.tasks.items():
            foreign = await seen(room.mallory, probe, task.id, task.context)
            never = await seen(room.mallory, probe, absent(task.id), task.context)
            assert foreign == never, (name, state)
            assert "secret" not in foreign[2], (name, state)
            found = "TASK_NOT_FOUND" in foreign[2] or "-32001" in foreign[2]
            assert found, (name, state, foreign)
    # The probes changed nothing and ran nothing.
    assert {name: (await room.alice.get(task.id)).body for name, task in room.tasks.items()} == before
    assert hooks == [
        (await room.alice.http.send(PROBES["list push"](room.alice, one.id, ""))).text for one in room.tasks.values()
    ]
    assert len(room.house.ledger.notes("start")) == 3
    assert not room.house.ledger.notes("stopped")


async def test_another_callers_context_is_a_context_of_ones_own(room: Room) -> None:
    """Same contextId, messageId and text: no replay, no conflict, no queue behind it, nothing of its memory."""
    for task, text in ((room.done, "echo secret"), (room.asked, "ask secret"), (room.running, "echo at once")):
        message = {"c-done": "m-done", "c-asked": "m-asked", "c-run": "m-run"}[task.context]
        mine = (await room.mallory.send(text, context=task.context, message_id=message)).task
        assert mine.id != task.id
        assert mine.context == task.context
        assert mine.data["heard"] == [text]
        # And the other way round: the owner's retry finds the owner's task, as if nobody had been there.
        if task is not room.running:
            assert (await room.alice.send(text, context=task.context, message_id=message)).task.id == task.id
    conflict = await room.alice.send("work gate", context="c-run", message_id="m-run")
    assert (conflict.status, conflict.fault.code) == (409, -32051)
    assert conflict.fault.details["taskId"] == room.running.id


async def test_other_content_under_anothers_message_id_is_no_conflict(room: Room) -> None:
    answer = await room.mallory.send("echo other", context="c-done", message_id="m-done")
    assert answer.task.text == "echo: echo other"


async def test_a_stream_with_anothers_ids_and_position_shows_ones_own_turn(room: Room) -> None:
    for last in (None, "1-1", "0-0"):
        async with room.mallory.stream("echo mine", context="c-run", message_id="m-run", last=last) as stream:
            items = await stream.rest()
        assert items[-1].state == "completed"
        assert {item.id for item in items}.isdisjoint({task.id for task in room.tasks.values()})
        assert "secret" not in "".join(frame.raw for frame in stream.seen)


async def test_a_first_message_without_a_context_gets_one_of_its_own(room: Room) -> None:
    message = str(uuid4())
    hers = (await room.alice.send("echo", message_id=message)).task
    mine = (await room.mallory.send("echo", message_id=message)).task
    assert (hers.context, hers.id) != (mine.context, mine.id)
    assert hers.context != mine.context


@pytest.mark.parametrize("room", ["1.0", "rest"], indirect=True)  # 0.3 has no list
async def test_a_list_holds_ones_own(room: Room) -> None:
    hers = (await room.alice.list(pageSize=1)).result
    assert hers["totalSize"] == 3
    for filters in ({}, {"contextId": "c-done"}, {"pageToken": hers["nextPageToken"]}, {"pageSize": 100}):
        nothing = (await room.mallory.list(**filters)).result
        assert (nothing["tasks"], nothing["totalSize"], nothing["nextPageToken"]) == ([], 0, "")
    mine = (await room.mallory.send("echo", context="c-done")).task
    for filters in ({}, {"contextId": "c-done"}):
        page = (await room.mallory.list(**filters)).result
        assert ([task["id"] for task in page["tasks"]], page["totalSize"]) == ([mine.id], 1)
    assert (await room.alice.list(contextId="c-done")).result["totalSize"] == 1
    # Looking for others' tasks took none of them away.
    assert (await room.alice.list()).result["totalSize"] == 3


async def test_a_subject_of_another_issuer_is_another_caller(real_engine: Engine, tmp_path: Path) -> None:
    door = Door("HS256", make_keys(), tmp_path)

    def of(issuer: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token(sub='alice', iss=issuer)}"}

    async with serving(real_engine, tmp_path, auth=door.settings) as house, house.speaker(of("us")) as alice:
        task = (await alice.send("echo")).task
        for issuer in ("them", None):
            async with house.speaker(of(issuer)) as stranger:
                assert (await stranger.get(task.id)).fault.code == -32001
        async with house.speaker({"Authorization": f"Bearer {token(sub='alice', iss='us', jti='new')}"}) as again:
            assert (await again.get(task.id)).task.id == task.id
