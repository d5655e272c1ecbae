"""ListTasks: filters, order, opaque cursors, exact totals."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.http.conftest import Dial, Serve, Served, started
from tests.support.client import Wire

NEW_WIRES: tuple[Wire, ...] = ("1.0", "rest")


@pytest.fixture
def server(serve: Serve) -> Served:
    """Alone in its namespace, so that totals can be known."""
    return serve()


@pytest.fixture(params=NEW_WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    """0.3 has no such method."""
    chosen: Wire = request.param
    return chosen


async def page(dial: Dial, wire: Wire, **filters: Any) -> dict[str, Any]:
    result: dict[str, Any] = (await dial(wire).list(**filters)).result
    assert set(result) == {"tasks", "nextPageToken", "pageSize", "totalSize"}
    return result


async def test_an_empty_listing_has_all_its_members(dial: Dial, wire: Wire) -> None:
    assert await page(dial, wire) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_tasks_come_newest_status_first(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    others = [(await dial(wire).send(f"echo {number}")).task for number in range(3)]
    await dial(wire).send("echo yes", task=asked.id)
    ids = [task["id"] for task in (await page(dial, wire))["tasks"]]
    assert ids == [asked.id, *(task.id for task in reversed(others))]


async def test_pages_show_every_task_once(dial: Dial, wire: Wire) -> None:
    made = {(await dial(wire).send(f"echo {number}")).task.id for number in range(7)}
    seen: list[str] = []
    token, pages = "", 0
    while True:
        found = await page(dial, wire, pageSize=3, **({"pageToken": token} if token else {}))
        assert (found["pageSize"], found["totalSize"]) == (3, 7)
        seen += [task["id"] for task in found["tasks"]]
        pages += 1
        token = found["nextPageToken"]
        if not token:
            break
    assert (pages, len(seen), set(seen)) == (3, 7, made)


async def test_a_cursor_survives_the_change_of_the_task_it_stands_on(dial: Dial, wire: Wire) -> None:
    asked = [(await dial(wire).send("ask")).task.id for _ in range(4)]
    first = await page(dial, wire, pageSize=2)
    await dial(wire).cancel(first["tasks"][-1]["id"])
    rest = await page(dial, wire, pageSize=2, pageToken=first["nextPageToken"])
    assert [task["id"] for task in rest["tasks"]] == [asked[1], asked[0]]


async def test_filters_by_context_and_by_state_have_exact_totals(dial: Dial, wire: Wire) -> None:
    context = uuid.uuid4().hex
    for text in ("echo", "ask", "echo", "reject"):
        await dial(wire).send(text, context=context)
    await dial(wire).send("echo")
    by_context = await page(dial, wire, contextId=context)
    assert (by_context["totalSize"], {task["contextId"] for task in by_context["tasks"]}) == (4, {context})
    by_state = await page(dial, wire, status="TASK_STATE_COMPLETED")
    assert by_state["totalSize"] == 3
    assert {task["status"]["state"] for task in by_state["tasks"]} == {"TASK_STATE_COMPLETED"}
    both = await page(dial, wire, contextId=context, status="TASK_STATE_INPUT_REQUIRED", pageSize=1)
    assert (both["totalSize"], len(both["tasks"]), both["nextPageToken"]) == (1, 1, "")
    assert (await page(dial, wire, contextId="unknown"))["totalSize"] == 0


async def test_running_and_queued_tasks_are_listed_in_their_states(dial: Dial, server: Served, wire: Wire) -> None:
    running = (await dial(wire).send("hold gate", wait=False)).task
    queued = (await dial(wire).send("echo", context=running.context, wait=False)).task
    await started(server.ledger, task=running.id)
    for state, task in (("WORKING", running), ("SUBMITTED", queued)):
        found = await page(dial, wire, status=f"TASK_STATE_{state}")
        assert [one["id"] for one in found["tasks"]] == [task.id]
    server.ledger.open("gate")


async def test_a_time_filter_is_inclusive(dial: Dial, wire: Wire) -> None:
    tasks = [(await dial(wire).send(f"echo {number}")).task for number in range(3)]
    floor = tasks[1].raw["status"]["timestamp"]
    found = await page(dial, wire, statusTimestampAfter=floor)
    expected = [task.id for task in reversed(tasks) if task.raw["status"]["timestamp"] >= floor]
    assert [task["id"] for task in found["tasks"]] == expected
    assert found["totalSize"] == len(expected)


async def test_artifacts_are_shown_only_when_asked_for(dial: Dial, wire: Wire) -> None:
    await dial(wire).send("stream 2")
    [plain] = (await page(dial, wire))["tasks"]
    assert "artifacts" not in plain
    [whole] = (await page(dial, wire, includeArtifacts="true" if wire == "rest" else True))["tasks"]
    assert whole["artifacts"][0]["name"] == "numbers"


async def test_history_is_cut_per_task(dial: Dial, wire: Wire) -> None:
    asked = (await dial(wire).send("ask")).task
    await dial(wire).send("echo", task=asked.id)
    [none] = (await page(dial, wire, historyLength=0))["tasks"]
    assert "history" not in none
    [one] = (await page(dial, wire, historyLength=1))["tasks"]
    assert len(one["history"]) == 1


@pytest.mark.parametrize(
    "filters",
    [
        {"pageSize": 0},
        {"pageSize": 101},
        {"pageSize": -1},
        {"pageToken": "nonsense"},
        {"pageToken": "fHx8"},
        {"status": "completed"},
        {"status": "TASK_STATE_DREAMING"},
        {"historyLength": -1},
        {"statusTimestampAfter": "yesterday"},
    ],
    ids=str,
)
async def test_a_filter_that_is_none_is_refused(dial: Dial, wire: Wire, filters: dict[str, Any]) -> None:
    assert (await dial(wire).list(**filters)).fault.code == -32602


async def test_the_largest_page_is_allowed(dial: Dial, wire: Wire) -> None:
    assert (await page(dial, wire, pageSize=100))["pageSize"] == 100
