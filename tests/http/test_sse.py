"""How a stream looks byte by byte: framing, ids, keep-alives, errors, and resuming."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from server.auth.caller import ANONYMOUS
from stores import Store
from stores.keys import ContextRef
from tests.http.conftest import Dial, Serve, Served, started
from tests.support.agents import Direct, Ledger
from tests.support.client import Item, Wire
from tests.support.wait import wait_for_state


async def test_the_head_of_a_stream_lets_no_proxy_hold_it_back(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("echo") as reader:
        head = reader.response.headers
        await reader.rest()
    assert reader.response.status_code == 200
    assert head["content-type"] == "text/event-stream; charset=utf-8"
    assert head["cache-control"] == "no-store"
    assert head["x-accel-buffering"] == "no"


async def test_every_event_is_one_data_line_with_one_document(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 3") as reader:
        await reader.rest()
    for frame in reader.seen:
        lines = frame.raw.split("\n")
        assert [line.partition(":")[0] for line in lines] == (["data"] if wire == "0.3" else ["id", "data"])
        assert frame.event is None
        if wire != "rest":
            assert (frame.data["jsonrpc"], frame.data["id"]) == ("2.0", "r1")


async def test_ids_grow_and_no_event_shares_one(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 5", last="0") as reader:
        await reader.rest()
    ids = [tuple(int(part) for part in (frame.id or "").split("-")) for frame in reader.seen]
    assert ids == sorted(set(ids))


async def test_a_03_client_gets_ids_only_when_it_asks_for_them(dial: Dial) -> None:
    async with dial("0.3").stream("stream 2") as reader:
        await reader.rest()
    assert all(frame.id is None for frame in reader.seen)
    async with dial("0.3").stream("stream 2", last="0") as reader:
        await reader.rest()
    assert all(frame.id is not None for frame in reader.seen)


async def test_a_silent_stream_is_kept_alive_by_comments(serve: Serve, dial: Dial, wire: Wire) -> None:
    served = serve(sse_keepalive_seconds=0.1)
    assert served.settings.sse_keepalive_seconds < 3
    async with dial(wire, served).stream("hold gate") as reader:
        while [frame.comment for frame in reader.seen].count("keep-alive") < 3:
            assert await reader.frame() is not None
        served.ledger.open("gate")
        assert (await reader.rest())[-1].state == "completed"


async def test_a_stream_whose_first_event_is_late_is_opened_all_the_same(
    serve: Serve, dial: Dial, wire: Wire, tmp_path: Path
) -> None:
    """An agent that may answer with a direct Message shows its task only when it showed something."""
    served = serve(Direct(tmp_path), sse_keepalive_seconds=0.1)
    async with dial(wire, served).stream("reply gate") as reader:
        frame = await reader.frame()
        assert frame is not None
        assert frame.comment == "keep-alive"
        served.ledger.open("gate")
        [message] = await reader.rest()
    assert (message.kind, message.text) == ("message", "straight back")


async def test_characters_that_some_clients_take_for_line_ends_are_escaped(dial: Dial, wire: Wire) -> None:
    text = "echo a\u2028b\u2029c\u0085d\ne\rf"
    async with dial(wire).stream(text) as reader:
        items = await reader.rest()
    for frame in reader.seen:
        assert frame.raw.isascii()
        assert len(frame.raw.splitlines()) == (1 if wire == "0.3" else 2)
    assert items[-1].text == f"echo: {text}"


async def test_the_body_ends_cleanly(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("echo") as reader:
        body = (await reader.response.aread()).decode()
    assert body.endswith("\n\n")
    assert reader.response.is_stream_consumed


async def test_a_refusal_before_the_first_event_has_the_form_its_client_reads(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("echo", task=str(uuid.uuid4())) as reader:
        if wire == "0.3":
            assert (reader.response.status_code, reader.is_stream) == (200, True)
            frame = await reader.frame()
            assert frame is not None
            assert (frame.event, frame.id) == (None, None)
            assert frame.fault is not None
            assert frame.fault.code == -32001
            assert await reader.frame() is None
        else:
            assert reader.response.status_code == (404 if wire == "rest" else 200)
            assert not reader.is_stream
            assert (await reader.answer()).fault.code == -32001


async def test_a_refusal_whose_status_is_the_message_keeps_it_on_streams(
    dial: Dial, ledger: Ledger, wire: Wire
) -> None:
    gate, message = uuid.uuid4().hex, str(uuid.uuid4())
    async with dial(wire).stream(f"hold {gate}", message_id=message) as running:
        task = await running.next()
        async with dial(wire).stream(f"hold {gate}", message_id=message) as refused:
            answer = await refused.answer()
        ledger.open(gate)
        await running.rest()
    assert (answer.status, answer.fault.code) == (409, -32051)
    assert answer.fault.details["taskId"] == task.id
    assert answer.headers["retry-after"] == "1"


async def test_an_error_after_the_first_event_has_the_form_its_client_reads(
    dial: Dial, ledger: Ledger, store: Store, wire: Wire
) -> None:
    context, gate = uuid.uuid4().hex, uuid.uuid4().hex
    await dial(wire).send(f"hold {gate}", context=context, wait=False)
    async with dial(wire).stream("echo", context=context) as reader:
        task = await reader.next()
        # The task is gone under the stream's feet, as if it had lapsed.
        ref = ContextRef.of(ANONYMOUS.key, context)
        await store.client.call("DEL", store.keys.prefix(ref.tag) + f"t:{ANONYMOUS.key}:{task.id}")
        await store.client.call("PUBLISH", store.keys.task_channel + task.id, "look")
        frame = await reader.frame()
        while frame is not None and frame.comment is not None:
            frame = await reader.frame()
        assert frame is not None
        assert frame.fault is not None
        assert frame.event == ("error" if wire == "rest" else None)
        assert await reader.frame() is None
    ledger.open(gate)


def pieces(items: list[Item]) -> str:
    return "".join(item.text for item in items if item.kind == "artifact")


async def test_a_stream_is_resumed_after_any_event_without_a_gap_or_a_repeat(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 6", last="0") as reader:
        whole = await reader.rest()
    task_id = whole[0].id
    for position, frame in enumerate(list(reader.seen)[:-1]):
        async with dial(wire).subscribe(task_id, last=frame.id) as resumed:
            rest = await resumed.rest()
        assert [item.raw for item in rest] == [item.raw for item in whole[position + 1 :]]
        assert [seen.id for seen in resumed.seen] == [seen.id for seen in reader.seen[position + 1 :]]


async def test_a_resume_after_the_last_event_shows_the_task_and_ends(dial: Dial, wire: Wire) -> None:
    async with dial(wire).stream("stream 2", last="0") as reader:
        whole = await reader.rest()
    async with dial(wire).subscribe(whole[0].id, last=reader.last_id) as resumed:
        [task] = await resumed.rest()
    assert (task.kind, task.state, task.artifacts) == ("task", "completed", ["0 1 "])


async def test_a_resume_while_the_agent_works_goes_on_where_it_was_cut(dial: Dial, ledger: Ledger, wire: Wire) -> None:
    half = uuid.uuid4().hex
    async with dial(wire).stream(f"stream 10 {half}", last="0") as reader:
        before = [await reader.next() for _ in range(4)]
        cursor = reader.last_id
    async with dial(wire).subscribe(before[0].id, last=cursor) as resumed:
        ledger.open(half)
        after = await resumed.rest()
    assert pieces(before + after) == "".join(f"{number} " for number in range(10))
    assert "task" not in [item.kind for item in after]


async def test_a_message_sent_again_with_the_last_id_joins_its_running_turn(
    dial: Dial, ledger: Ledger, wire: Wire
) -> None:
    half, message = uuid.uuid4().hex, str(uuid.uuid4())
    text = f"stream 10 {half}"
    async with dial(wire).stream(text, message_id=message, last="0") as reader:
        before = [await reader.next() for _ in range(4)]
        cursor = reader.last_id
    async with dial(wire).stream(text, message_id=message, last=cursor) as resumed:
        ledger.open(half)
        after = await resumed.rest()
    assert pieces(before + after) == "".join(f"{number} " for number in range(10))
    assert len(ledger.notes("start", message=message)) == 1


@pytest.mark.parametrize("nothing_seen", ["0", "not-ours", "99999999999999999999-1", "77-7"])
async def test_a_client_that_has_seen_nothing_begins_with_the_task(
    dial: Dial, ledger: Ledger, wire: Wire, nothing_seen: str
) -> None:
    half = uuid.uuid4().hex
    task = (await dial(wire).send(f"stream 4 {half}", wait=False)).task
    await started(ledger, task=task.id)
    async with dial(wire).subscribe(task.id, last=nothing_seen) as reader:
        first = await reader.next()
        assert first.kind == "task"
        ledger.open(half)
        rest = await reader.rest()
    assert all(frame.id is not None for frame in reader.seen)
    assert "".join(first.artifacts) + pieces(rest) == "0 1 2 3 "


async def test_r33_a_cursor_whose_log_has_lapsed_gets_the_task(dial: Dial, store: Store, wire: Wire) -> None:
    async with dial(wire).stream("stream 6", last="0") as reader:
        for _ in range(3):
            await reader.next()
        cursor = reader.last_id
        await reader.rest()
    task = reader.seen[0].item
    ref = ContextRef.of(ANONYMOUS.key, task.context)
    await store.client.call("DEL", store.keys.prefix(ref.tag) + f"e:{ANONYMOUS.key}:{task.id}")
    async with dial(wire).subscribe(task.id, last=cursor) as resumed:
        [snapshot] = await resumed.rest()
    assert (snapshot.kind, snapshot.state) == ("task", "completed")
    assert snapshot.artifacts == ["0 1 2 3 4 5 "]


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_rest_subscribes_with_both_verbs(dial: Dial, server: Served, ledger: Ledger, verb: str) -> None:
    gate = uuid.uuid4().hex
    task = (await dial("rest").send(f"hold {gate}", wait=False)).task
    http = dial("rest").http
    async with http.stream(verb, f"{server.url}/tasks/{task.id}:subscribe", headers={"A2A-Version": "1.0"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        ledger.open(gate)
        body = (await answer.aread()).decode()
    assert body.count("data:") >= 2
    await wait_for_state([dial("rest")], task.id, "completed")
