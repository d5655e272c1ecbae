"""R52: what a newer release stored with a task survives the turns of this one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.auth.caller import ANONYMOUS
from stores import Store
from tests.http.conftest import Dial
from tests.support.client import Item
from tests.support.wait import wait_until

BESIDE: dict[str, Any] = {"mood": {"deep": [1, None]}, "since": 7}


async def mark(store: Store, task_id: str) -> str:
    """Puts members that we do not know into the stored document; its key."""
    key = store.keys.task(task_id[-12:], ANONYMOUS.key, task_id)
    doc = json.loads(await store.client.call("HGET", key, "doc"))
    await store.client.call("HSET", key, "doc", json.dumps({**doc, **BESIDE}))
    return key


async def assert_kept(store: Store, key: str) -> None:
    doc = json.loads(await store.client.call("HGET", key, "doc"))
    assert BESIDE.items() <= doc.items(), doc


@pytest.mark.parametrize("then", ["stream 3", "raise", "ask", "give_up"])
async def test_members_of_a_newer_release_survive_a_turn_and_are_not_shown(dial: Dial, store: Store, then: str) -> None:
    here = dial()
    task: Item = (await here.send("ask")).task
    key = await mark(store, task.id)
    after = await here.send(then, task=task.id)
    assert after.task.id == task.id
    assert "mood" not in json.dumps(after.result)
    await assert_kept(store, key)


async def test_members_of_a_newer_release_survive_a_cancel(dial: Dial, store: Store, ledger: Any) -> None:
    here = dial()
    idle = (await here.send("ask")).task.id
    key = await mark(store, idle)
    assert (await here.cancel(idle)).task.state == "canceled"
    await assert_kept(store, key)

    held = (await here.send("hold never", context="r52", wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", task=held))
    queued = (await here.send("echo", context="r52", wait=False)).task.id
    key = await mark(store, queued)
    assert (await here.cancel(queued)).task.state == "canceled"
    await assert_kept(store, key)
    await here.cancel(held)
