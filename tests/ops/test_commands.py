"""The operator's commands on a running fleet."""

from __future__ import annotations

import asyncio
import contextlib
from importlib.metadata import version

import httpx

from tests.ops.conftest import Nonstick, unique
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.fleet import Fleet
from tests.support.wait import wait_for_state, wait_until


async def begin(speaker: Speaker, ledger: Ledger, text: str, context: str) -> str:
    """A turn that an agent has begun; its task."""
    sent = await speaker.send(text, context=context, wait=False)
    await wait_until(lambda: ledger.notes("start", context=context), what="the turn's start")
    return sent.task.id


async def test_ps_shows_what_runs_where_for_how_long_and_what_waits(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    context, gate = unique("ps"), unique("gate")
    task = await begin(speaker, ledger, f"work {gate}", context)
    await speaker.send("echo", context=context, wait=False)

    done = await nonstick("ps", "--json", namespace=fleet.settings["namespace"])
    [turn] = [it for it in done.data if it["context"] == context]
    assert (done.code, turn["task"], turn["queued"], turn["attempt"]) == (0, task, 1, 1)
    assert 0 <= turn["progress_ms_ago"] <= turn["running_ms"]
    assert turn["worker"].startswith(f"{fleet.nodes[0].pid}-")

    table = await nonstick("ps")  # the only fleet of the store needs no name
    assert task in table.out
    assert "2 workers alive" in table.out
    shown = await nonstick("tasks", "show", task)
    assert "queue behind" in shown.out
    assert "at it" not in shown.out
    ledger.open(gate)
    await wait_for_state([speaker], task, "completed")


async def test_a_cancel_stops_the_work_on_its_worker(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    context = unique("cancel")
    task = await begin(speaker, ledger, f"hold {unique('gate')}", context)

    done = await nonstick("tasks", "cancel", task, "--json")

    assert (done.code, done.data) == (0, {"task": task, "ended": True, "state": "canceled"})
    assert ledger.notes("stopped", task=task)
    again = await nonstick("tasks", "cancel", task)
    assert (again.code, again.out.strip()) == (1, f"{task} had ended already: canceled.")


async def test_a_waiting_task_is_cancelled_by_its_own_agent(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    task = (await speaker.send("ask", context=unique("idle"))).task.id
    done = await nonstick("tasks", "cancel", task)
    assert (done.code, done.out.strip()) == (0, f"{task} is canceled.")
    assert ledger.notes("on_cancel", task=task)


async def test_an_agent_that_will_not_stop_is_closed_by_force_and_can_write_nothing(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    context, gate = unique("defy"), unique("gate")
    # The worker itself gives up on the agent after cancel_wait_seconds; the operator does not want to wait.
    task = await begin(speaker, ledger, f"defy {gate}", context)
    asked = await nonstick("tasks", "cancel", task, "--wait", "0.2")
    assert asked.code == 1
    assert "--force" in asked.out
    forced = await nonstick("tasks", "cancel", task, "--wait", "0.2", "--force")
    assert forced.code == 0, forced
    ledger.open(gate)
    task_now = (await speaker.get(task)).task
    assert (task_now.state, task_now.metadata["stopped"]) == ("canceled", False)
    assert not task_now.artifacts


async def test_fail_closes_at_once_and_the_queue_behind_goes_on(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    context = unique("fail")
    task = await begin(speaker, ledger, f"hold {unique('gate')}", context)
    behind = (await speaker.send("echo", context=context, wait=False)).task.id

    done = await nonstick("tasks", "fail", task, "--reason", "disk on fire")

    assert done.code == 0, done
    failed = (await speaker.get(task)).task
    assert (failed.state, failed.text) == ("failed", "disk on fire")
    assert failed.metadata["error_type"] == "operator"
    await wait_for_state([speaker], behind, "completed")
    idle = (await speaker.send("ask", context=unique("fail"))).task.id
    assert (await nonstick("tasks", "fail", idle)).code == 0
    assert (await speaker.get(idle)).task.state == "failed"


async def test_releasing_a_context_ends_everything_open_and_gives_its_place_back(
    fleet: Fleet, speaker: Speaker, ledger: Ledger, nonstick: Nonstick
) -> None:
    context = unique("release")
    waiting = (await speaker.send("ask", context=context)).task.id
    running = await begin(speaker, ledger, f"hold {unique('gate')}", context)
    queued = (await speaker.send("echo", context=context, wait=False)).task.id
    listed = await nonstick("contexts", "list", "--json", "--limit", "1000")
    assert context in {it["context"] for it in listed.data["contexts"]}
    shown = await nonstick("contexts", "show", context, "--json")
    assert (shown.data["running"], shown.data["queue"], shown.data["open"]) == (running, [queued], 3)

    done = await nonstick("contexts", "release", context, "--json")

    assert (done.code, done.data["released"]) == (0, True), done
    assert set(done.data["tasks"].values()) == {"canceled"}
    assert set(done.data["tasks"]) == {waiting, running, queued}
    after = await nonstick("contexts", "show", context, "--json")
    assert (after.data["open"], after.data["counted_for_ms"]) == (0, 0)
    assert after.data["session_bytes"] > 0


async def test_a_drained_worker_finishes_its_turn_and_ends(
    fleet: Fleet, http: httpx.AsyncClient, ledger: Ledger, nonstick: Nonstick
) -> None:
    node = fleet.nodes[1]
    there = Speaker(http, node.url, "1.0")
    context, gate = unique("drain"), unique("gate")
    sending = asyncio.create_task(there.send(f"hold {gate}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context), what="the turn's start")

    asked = await nonstick("workers", "drain", f"{node.pid}-", "--no-wait")
    assert asked.code == 0, asked
    listed = await nonstick("workers", "list", "--json")
    assert [it["standing"] for it in listed.data if it["pid"] == node.pid] == ["draining"]
    ledger.open(gate)

    assert (await sending).task.state == "completed"
    gone = await nonstick("workers", "drain", f"{node.pid}-", "--wait", "15")
    assert gone.code in (0, 1)  # it may have ended before it was asked again
    with contextlib.suppress(TimeoutError):
        await node.gone()
    assert node.process.returncode == 0


async def test_tasks_are_listed_by_state_across_callers(fleet: Fleet, speaker: Speaker, nonstick: Nonstick) -> None:
    task = (await speaker.send("ask", context=unique("list"))).task.id
    done = await nonstick("tasks", "list", "--state", "input_required", "--json")
    assert {it["state"] for it in done.data} == {"input_required"}
    assert task in {it["task"] for it in done.data}
    assert task in (await nonstick("tasks", "list")).out


async def test_what_is_not_there_is_said_so(fleet: Fleet, nonstick: Nonstick) -> None:
    unknown = await nonstick("tasks", "show", "01a00000-0000-8000-8000-000000000000")
    assert unknown.code == 1
    assert "There is no task" in unknown.err
    assert (await nonstick("contexts", "show", "no such one")).code == 1
    assert "no task id" in (await nonstick("tasks", "show", "x")).err
    assert (await nonstick("workers", "drain", "nobody")).code == 1
    lost = await nonstick("ps", store="redis://127.0.0.1:1/0", namespace="x")
    assert lost.code == 2
    assert "store_unreachable" in lost.err


async def test_a_fleet_that_is_not_there_is_said_with_those_that_are(fleet: Fleet, nonstick: Nonstick) -> None:
    done = await nonstick("ps", "--json", namespace="nobody")
    assert (done.code, done.data) == (0, [])
    assert "No worker of nobody was seen" in done.err
    assert fleet.settings["namespace"] in done.err


async def test_workers_tell_their_release(fleet: Fleet, nonstick: Nonstick) -> None:
    listed = (await nonstick("workers", "list", "--json")).data
    assert {it["release"] for it in listed if it["standing"] == "alive"} == {version("nonstick")}


async def test_a_task_tells_the_trace_it_belongs_to(speaker: Speaker, nonstick: Nonstick) -> None:
    header = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    task = (await speaker.call("send", speaker.send_params("echo", context=unique("traced")), header)).task.id
    assert (await nonstick("tasks", "show", task, "--json")).data["trace"] == "0af7651916cd43dd8448eb211c80319c"
    assert "0af7651916cd43dd8448eb211c80319c" in (await nonstick("tasks", "show", task)).out
