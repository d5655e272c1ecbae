"""Push notifications as their receivers and registrars see them, over real HTTP both ways."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import secrets
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from server.auth.caller import ANONYMOUS
from stores import Store
from stores.keys import DeliveryRef
from tests.http.conftest import Dial, Serve, Served, serving, settings_for, started
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Puppet, Superseding
from tests.support.client import Wire
from tests.support.wait import wait_found, wait_until

SIGNING = "whsec_" + base64.b64encode(b"k" * 32).decode()
SEALING = base64.b64encode(b"s" * 32).decode()
ON: dict[str, Any] = {
    "push_notifications_enabled": True,
    "push_allow_private_targets_for_tests_only": True,
    "push_retry_seconds": 0.05,
    "push_max_attempts": 4,
    "push_signing_keys": (SIGNING,),
    "push_encryption_keys": (SEALING,),
    "heartbeat_seconds": 0.2,
    "presumed_dead_seconds": 5,
}
UNKNOWN = "00000000-0000-8000-8000-000000000000"


@pytest.fixture
def server(serve: Serve) -> Served:
    return serve(**ON)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


@pytest.fixture
def at(dial: Dial) -> Callable[..., Registrar]:
    return lambda *where: Registrar(dial(*where))


def served_by_nobody(store: Store) -> Any:
    """Whether no delivery is anybody's any more."""

    async def none() -> bool:
        workers = await store.fleet.workers()
        return not any([await store.fleet.deliveries(worker) for worker in workers])

    return none


# --- what is told ---------------------------------------------------------------------------------------------------


async def test_a_send_is_told_its_end_alone(at: Callable[..., Registrar], hook: Hook, wire: Wire) -> None:
    mine = at(wire)
    task = (await mine.send("stream 3", mine.config(hook.url))).task
    await hook.until(1)
    assert hook.states == ["completed"]
    assert hook.told[0].task_id == task.id


@pytest.mark.parametrize("wire", ["1.0", "rest"])
async def test_a_stream_of_1_0_is_told_every_event(at: Callable[..., Registrar], hook: Hook, wire: Wire) -> None:
    mine = at(wire)
    items = await mine.stream("stream 3", mine.config(hook.url))
    await hook.until(len(items))
    assert [told.kind for told in hook.told] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert [next(iter(told.body.values())) for told in hook.told] == [item.raw for item in items]
    assert hook.states == ["submitted", "working", "completed"]
    assert {told.head["content-type"] for told in hook.told} == {"application/a2a+json"}


async def test_a_stream_of_0_3_is_told_the_whole_task_at_each_state(at: Callable[..., Registrar], hook: Hook) -> None:
    mine = at("0.3")
    await mine.stream("stream 3", mine.config(hook.url))
    await hook.until_state("completed")
    assert hook.states == ["submitted", "working", "completed"]
    assert {(told.kind, told.head["content-type"]) for told in hook.told} == {("task", "application/json")}
    last = hook.told[-1].body
    assert [part["text"] for part in last["artifacts"][0]["parts"]] == ["0 ", "1 ", "2 "]
    task = (await mine.speaker.get(last["id"])).task
    assert task.raw == last


@pytest.mark.parametrize("text", ["ask", "login", "reject", "give_up", "raise"])
async def test_every_ending_is_told(at: Callable[..., Registrar], hook: Hook, text: str) -> None:
    mine = at("0.3")
    task = (await mine.send(text, mine.config(hook.url))).task
    await hook.until(1)
    assert hook.told[0].body["status"]["state"] == task.raw["status"]["state"]


async def test_headers_are_as_registered_and_the_signature_verifies(at: Callable[..., Registrar], hook: Hook) -> None:
    mine = at("1.0")
    await mine.send("echo", mine.config(hook.url, token="tok-1", credentials="cred-1"))
    [told] = await hook.until(1)
    assert told.head["x-a2a-notification-token"] == "tok-1"
    assert told.head["authorization"] == "Bearer cred-1"
    signed = f"{told.id}.{told.head['webhook-timestamp']}.".encode() + told.raw
    proof = base64.b64encode(hmac.new(b"k" * 32, signed, hashlib.sha256).digest()).decode()
    assert told.head["webhook-signature"] == f"v1,{proof}"


async def test_several_callbacks_are_each_told_everything_in_order(
    at: Callable[..., Registrar], hook: Hook, other: Hook, server: Served
) -> None:
    mine, gate = at("1.0"), uuid.uuid4().hex
    task = (await mine.send(f"work {gate}", mine.config(hook.url, config_id="one"), wait=False)).task
    await mine.create(task.id, mine.config(other.url, config_id="two"))
    server.ledger.open(gate)
    await hook.until_state("completed")
    await other.until_state("completed")
    assert hook.states == ["completed"]
    assert other.states[-1] == "completed"
    assert not {told.id for told in hook.told} & {told.id for told in other.told}


async def test_r40_a_config_is_told_what_comes_after_its_registration(
    at: Callable[..., Registrar], hook: Hook, server: Served
) -> None:
    mine, gate = at("1.0"), uuid.uuid4().hex
    task = (await mine.speaker.send(f"stream 10 {gate}", wait=False)).task

    async def half() -> bool:
        return len((await mine.speaker.get(task.id)).task.raw.get("artifacts", [{"parts": []}])[0]["parts"]) == 5

    await wait_found(half)
    await mine.create(task.id, mine.config(hook.url))
    server.ledger.open(gate)
    await hook.until_state("completed")
    pieces = [told.body["artifactUpdate"]["artifact"]["parts"][0]["text"] for told in hook.told[:-1]]
    assert pieces == [f"{number} " for number in range(5, 10)]


async def test_a_task_that_waits_is_told_of_again_with_its_next_turn(
    at: Callable[..., Registrar], hook: Hook, store: Store
) -> None:
    mine = at("1.0")
    task = (await mine.send("ask", mine.config(hook.url))).task
    await hook.until_state("input-required")
    await wait_found(served_by_nobody(store), what="the idle delivery's end")
    await mine.speaker.send("echo", task=task.id)
    await hook.until_state("completed")
    assert hook.states == ["input-required", "completed"]
    await wait_found(served_by_nobody(store), what="the delivery's end")


async def test_a_direct_reply_has_no_task_to_tell_of(at: Callable[..., Registrar], hook: Hook, store: Store) -> None:
    mine = at("1.0")
    answer = await mine.send("reply", mine.config(hook.url))
    assert answer.item.kind == "message"
    await wait_found(served_by_nobody(store))
    assert hook.told == []


# --- cancel and supersede -------------------------------------------------------------------------------------------


async def test_a_canceled_turn_is_told(at: Callable[..., Registrar], hook: Hook, server: Served) -> None:
    mine = at("1.0")
    task = (await mine.send("hold never", mine.config(hook.url), wait=False)).task
    await started(server.ledger, task=task.id)
    await mine.speaker.cancel(task.id)
    await hook.until_state("canceled")
    assert hook.states == ["canceled"]


async def test_a_task_canceled_in_the_queue_is_told(at: Callable[..., Registrar], hook: Hook, server: Served) -> None:
    mine, context, gate = at("1.0"), uuid.uuid4().hex, uuid.uuid4().hex
    await mine.speaker.send(f"hold {gate}", context=context, wait=False)
    task = (await mine.send("echo", mine.config(hook.url), context=context, wait=False)).task
    await mine.speaker.cancel(task.id)
    await hook.until_state("canceled")
    server.ledger.open(gate)


async def test_an_idle_task_that_is_canceled_is_told(at: Callable[..., Registrar], hook: Hook) -> None:
    mine = at("1.0")
    task = (await mine.send("ask", mine.config(hook.url))).task
    await hook.until_state("input-required")
    await mine.speaker.cancel(task.id)
    await hook.until_state("canceled")


async def test_a_superseded_task_is_told(
    serve: Serve, dial: Dial, hook: Hook, tmp_path: Any, stores: Callable[[Served], Store]
) -> None:
    served = serve(Superseding(tmp_path), **ON)
    mine, context = Registrar(dial("1.0", served)), uuid.uuid4().hex
    await mine.send("ask", mine.config(hook.url), context=context)
    await hook.until_state("input-required")
    await wait_found(served_by_nobody(stores(served)))
    await mine.speaker.send("echo", context=context)
    await hook.until_state("completed")
    assert hook.told[-1].body["statusUpdate"]["metadata"]["superseded_by"]


# --- receivers that fail --------------------------------------------------------------------------------------------


async def test_a_slow_receiver_delays_neither_the_turn_nor_another(
    at: Callable[..., Registrar], hook: Hook, other: Hook
) -> None:
    mine = at("1.0")
    hook.open.clear()
    gate_less = await mine.stream("stream 3", mine.config(hook.url))
    assert gate_less[-1].state == "completed"
    await mine.stream("stream 3", mine.config(other.url))
    await other.until_state("completed")
    assert len(hook.told) == 1
    hook.open.set()
    await hook.until_state("completed")
    assert hook.states == ["submitted", "working", "completed"]


async def test_a_retry_has_the_same_id_and_keeps_the_order(at: Callable[..., Registrar], hook: Hook) -> None:
    mine = at("1.0")
    hook.statuses = [503, 500, 429]
    await mine.stream("echo", mine.config(hook.url))
    await hook.until_state("completed")
    assert hook.states == ["submitted"] * 4 + ["working", "completed"]
    assert len({told.id for told in hook.told[:4]}) == 1
    assert len({told.id for told in hook.told}) == 3


async def test_a_receivers_wish_to_wait_is_respected(at: Callable[..., Registrar], hook: Hook) -> None:
    mine = at("1.0")
    hook.statuses, hook.headers = [503], ["retry-after: 1"]
    await mine.send("echo", mine.config(hook.url))
    first, second = await hook.until(2)
    assert second.at - first.at >= 0.95


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410])
async def test_a_refusal_is_a_dead_letter_at_once_and_later_events_go_on(
    at: Callable[..., Registrar], hook: Hook, store: Store, status: int
) -> None:
    mine = at("1.0")
    hook.statuses = [status]
    await mine.stream("echo", mine.config(hook.url, config_id="mine", token="tok"))
    await hook.until_state("completed")
    assert hook.states == ["submitted", "working", "completed"]
    [letter] = await store.push.list_dead_letters()
    assert (letter.event, letter.task_id) == ("0-0", hook.told[0].task_id)
    assert f'"said": "{status}"' in letter.doc
    assert "127.0.0.1" in letter.doc
    assert "tok" not in letter.doc


async def test_a_receiver_that_never_answers_well_gets_so_many_attempts_and_the_end_is_kept(
    at: Callable[..., Registrar], hook: Hook, store: Store
) -> None:
    mine = at("1.0")
    hook.always = 500
    await mine.stream("stream 2", mine.config(hook.url))

    async def buried() -> bool:
        return len(await store.push.list_dead_letters()) == 5

    await wait_found(buried)
    # States on the way get one try each while it fails; the first and the end get all four.
    assert len(hook.told) == 4 + 1 + 1 + 1 + 4
    hook.always = 200
    before = len(hook.told)
    oldest = min(await store.push.list_dead_letters(), key=lambda letter: letter.event)
    assert await store.push.retry_dead_letter(oldest)
    await hook.until_state("completed")
    await hook.until(before + 5)
    assert [told.state for told in hook.told[before:]] == ["submitted", "working", "", "", "completed"]
    assert {told.id for told in hook.told[before:]} == {told.id for told in hook.told[:before]}
    assert await store.push.list_dead_letters() == ()


async def test_one_attempt_is_what_one_attempt_says(serve: Serve, dial: Dial, hook: Hook) -> None:
    mine = Registrar(dial("1.0", serve(**{**ON, "push_max_attempts": 1})))
    hook.always = 503
    await mine.stream("echo", mine.config(hook.url))
    await hook.until_state("completed")
    assert hook.states == ["submitted", "working", "completed"]


async def test_r41_after_a_delete_there_is_no_further_attempt(
    at: Callable[..., Registrar], hook: Hook, other: Hook, server: Served
) -> None:
    mine, gate = at("1.0"), uuid.uuid4().hex
    hook.always = 503
    task = (await mine.speaker.send(f"work {gate}", wait=False)).task
    await mine.create(task.id, mine.config(hook.url, config_id="gone"))
    await mine.create(task.id, mine.config(other.url, config_id="stays"))
    hook.open.clear()
    server.ledger.open(gate)
    await hook.until(1)
    await mine.delete(task.id, "gone")
    tried = len(hook.told)
    hook.open.set()
    await other.until_state("completed")
    # The one that stays was told the end, so nothing is left for the deleted one to wait for.
    assert len(hook.told) == tried


async def test_a_cursor_older_than_the_log_gets_the_task_as_it_is(
    at: Callable[..., Registrar], hook: Hook, store: Store
) -> None:
    mine = at("1.0")
    hook.open.clear()
    items = await mine.stream("stream 3", mine.config(hook.url))
    await hook.until(1)
    task_id = items[0].id
    await store.client.call("DEL", store.keys.log(task_id[-12:], ANONYMOUS.key, task_id))
    hook.open.set()
    await hook.until_state("completed")
    assert [told.kind for told in hook.told] == ["task", "task"]
    assert hook.told[1].body["task"] == (await mine.speaker.get(task_id)).task.raw


# --- registering ----------------------------------------------------------------------------------------------------


async def test_configs_are_created_read_listed_and_deleted(at: Callable[..., Registrar], wire: Wire) -> None:
    mine = at(wire)
    task = (await mine.speaker.send("ask")).task
    url = "http://127.0.0.1:8099/hook?key=1"
    made = mine.shown(await mine.create(task.id, mine.config(url, token="tok", credentials="cred")))
    shown = {"task": task.id, "id": task.id, "url": url, "token": "tok", "credentials": "cred", "scheme": "Bearer"}
    assert made == shown
    await mine.create(task.id, mine.config(url, config_id="second"))
    assert mine.shown(await mine.get(task.id, task.id)) == shown
    assert [one["id"] for one in mine.shown_list(await mine.list(task.id))] == [task.id, "second"]
    await mine.create(task.id, mine.config(url + "&v=2", config_id="second"))
    assert mine.shown(await mine.get(task.id, "second"))["url"] == url + "&v=2"
    for _ in range(2):
        answer = await mine.delete(task.id, "second")
        assert answer.status == 200
        assert "error" not in answer.body
    assert [one["id"] for one in mine.shown_list(await mine.list(task.id))] == [task.id]
    assert (await mine.get(task.id, "second")).fault.code == -32001


async def test_0_3_gets_the_default_config_without_an_id(at: Callable[..., Registrar]) -> None:
    mine = at("0.3")
    task = (await mine.speaker.send("ask")).task
    assert (await mine.get(task.id, None)).fault.code == -32001
    await mine.create(task.id, mine.config("http://127.0.0.1:8099/a", config_id="first"))
    assert mine.shown(await mine.get(task.id, None))["id"] == "first"
    await mine.create(task.id, mine.config("http://127.0.0.1:8099/b"))
    assert mine.shown(await mine.get(task.id, None))["id"] == task.id


async def test_an_unknown_task_has_no_configs(at: Callable[..., Registrar], wire: Wire) -> None:
    mine = at(wire)
    url = "http://127.0.0.1:8099/"
    for answer in (
        await mine.create(UNKNOWN, mine.config(url)),
        await mine.get(UNKNOWN, "c"),
        await mine.list(UNKNOWN),
        await mine.delete(UNKNOWN, "c"),
    ):
        assert answer.fault.code == -32001


async def test_sixteen_configs_and_no_more(at: Callable[..., Registrar], wire: Wire) -> None:
    mine = at(wire)
    task = (await mine.speaker.send("ask")).task
    for number in range(16):
        await mine.create(task.id, mine.config("http://127.0.0.1:8099/", config_id=f"c{number}"))
    answer = await mine.create(task.id, mine.config("http://127.0.0.1:8099/", config_id="more"))
    assert answer.fault.code == -32602
    assert "16" in answer.fault.message
    answer = await mine.send("echo", mine.config("http://127.0.0.1:8099/", config_id="more"), task=task.id)
    assert answer.fault.code == -32602


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1/hook", "loopback"),
        ("http://10.1.2.3/hook", "private"),
        ("http://[::ffff:169.254.169.254]/", "not a public"),
        ("http://0x7f000001/", "loopback"),
        ("ftp://hooks.example.com/", "http://"),
        ("https://user:pw@hooks.example.com/", "credentials"),
        ("https://localhost/", "local"),
    ],
)
async def test_a_refused_url_is_said_with_its_reason(
    serve: Serve, dial: Dial, stores: Callable[[Served], Store], wire: Wire, url: str, said: str
) -> None:
    served = serve(push_notifications_enabled=True)
    mine = Registrar(dial(wire, served))
    task = (await mine.speaker.send("ask")).task
    for answer in (await mine.create(task.id, mine.config(url)), await mine.send("echo", mine.config(url))):
        assert answer.fault.code == -32602
        assert said in answer.fault.message
        assert "pw" not in str(answer.body)
    assert mine.shown_list(await mine.list(task.id)) == []


@pytest.mark.parametrize("kept", [600, 0])
async def test_a_retry_replays_though_its_callback_is_refused_by_now(
    serve: Serve, dial: Dial, hook: Hook, kept: int
) -> None:
    first = serve(**{**ON, "a2a_message_cache_ttl_seconds": kept})
    strict = {"push_allow_private_targets_for_tests_only": False, "namespace": first.settings.namespace}
    second = serve(**{**ON, **strict, "a2a_message_cache_ttl_seconds": kept})
    message = str(uuid.uuid4())
    mine, again = Registrar(dial("1.0", first)), Registrar(dial("1.0", second))
    task = (await mine.send("echo", mine.config(hook.url), message_id=message)).task
    answer = await again.send("echo", again.config(hook.url), message_id=message)
    if kept:
        assert answer.task.raw == task.raw
    else:
        assert answer.fault.code == -32602
    assert (await again.send("echo", again.config(hook.url))).fault.code == -32602


@pytest.mark.parametrize("bad", ["a\r\nX-Other: 1", "\x00", "naïve", " padded", "x" * 9000])
async def test_secrets_that_fit_in_no_header_are_refused(at: Callable[..., Registrar], bad: str) -> None:
    mine = at("1.0")
    task = (await mine.speaker.send("ask")).task
    for config in (
        mine.config("http://127.0.0.1:8099/", token=bad),
        mine.config("http://127.0.0.1:8099/", credentials=bad),
    ):
        answer = await mine.create(task.id, config)
        assert answer.fault.code == -32602
        assert bad not in str(answer.body)


async def test_it_is_off_by_default_and_the_card_says_so(serve: Serve, dial: Dial, wire: Wire) -> None:
    served = serve()
    mine = Registrar(dial(wire, served))
    config = mine.config("https://hooks.example.com/")
    task = (await mine.speaker.send("ask")).task
    for answer in (
        await mine.create(task.id, config),
        await mine.get(task.id, "c"),
        await mine.list(task.id),
        await mine.delete(task.id, "c"),
        await mine.send("echo", config),
    ):
        assert answer.fault.code == -32003
    card = (await mine.speaker.http.get(f"{served.url}/.well-known/agent-card.json")).json()
    assert card["capabilities"]["pushNotifications"] is False


async def test_the_card_says_when_it_is_on(server: Served, dial: Dial) -> None:
    card = (await dial().http.get(f"{server.url}/.well-known/agent-card.json")).json()
    assert card["capabilities"]["pushNotifications"] is True


@pytest.mark.parametrize("on", [True, False])
async def test_a_static_card_does_not_offer_what_is_off(serve: Serve, dial: Dial, tmp_path: Path, on: bool) -> None:
    file = tmp_path / "card.json"
    card = {
        "name": "n",
        "description": "d",
        "version": "1",
        "url": "http://x",
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": []}],
        "capabilities": {"pushNotifications": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
    }
    file.write_text(json.dumps(card))
    served = serve(push_notifications_enabled=on, agent_card_path=file)
    shown = (await dial("1.0", served).http.get(f"{served.url}/.well-known/agent-card.json")).json()
    assert shown["capabilities"]["pushNotifications"] is on


# --- secrets --------------------------------------------------------------------------------------------------------


async def everything_stored(store: Store) -> str:
    """Every key and value of the namespace."""
    found: list[str] = []
    keys = await store.client.call("KEYS", f"{store.keys.namespace}:*")
    for key in keys:
        kind = await store.client.call("TYPE", key)
        command = {
            "hash": ["HGETALL", key],
            "set": ["SMEMBERS", key],
            "zset": ["ZRANGE", key, 0, -1],
            "list": ["LRANGE", key, 0, -1],
            "stream": ["XRANGE", key, "-", "+"],
            "string": ["GET", key],
        }[kind]
        found.append(f"{key} {await store.client.call(*command)}")
    return "\n".join(found)


@pytest.mark.parametrize("sealed", [True, False])
async def test_secrets_are_stored_sealed_and_never_logged(
    serve: Serve,
    dial: Dial,
    stores: Callable[[Served], Store],
    hook: Hook,
    caplog: pytest.LogCaptureFixture,
    sealed: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    served = serve(**ON) if sealed else serve(**{**ON, "push_encryption_keys": ()})
    mine, context, gate = Registrar(dial("1.0", served)), uuid.uuid4().hex, uuid.uuid4().hex
    token, credentials, path = (secrets.token_hex(12) for _ in range(3))
    hook.path, hook.statuses = f"/{path}", [503, 404]
    config = mine.config(hook.url, token=token, credentials=credentials)
    # One that runs and one that waits: the message's own record must not hold them either.
    await mine.send(f"work {gate}", config, context=context, wait=False)
    queued = (await mine.send("echo", config, context=context, wait=False)).task
    await mine.create(queued.id, mine.config(hook.url, config_id="set", token=token, credentials=credentials))
    stored = await everything_stored(stores(served))
    secret = {token, credentials, path}
    assert not [one for one in secret if one in stored]
    assert ("nsk1." in stored) is sealed
    served.ledger.open(gate)

    def logged() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name.startswith(("server", "stores"))]

    # Which of the posts meets the 503 and which the 404 is open: one of them is repeated, one is given up.
    outcomes = sorted(["delivered"] * 3 + ["retry", "dead_letter"])
    await wait_until(
        lambda: sorted(re.findall(r"a2a_server\.push\.(\w+) (?:in|task)=", "\n".join(logged()))) == outcomes
    )
    ours = logged()
    assert not [line for line in ours for one in secret if one in line]
    assert any("not_encrypted" in line for line in ours) is not sealed


async def test_what_was_sealed_with_a_key_that_is_gone_becomes_a_dead_letter(
    serve: Serve, dial: Dial, hook: Hook, stores: Callable[[Served], Store]
) -> None:
    first = serve(**ON)
    mine = Registrar(dial("1.0", first))
    task = (await mine.send("ask", mine.config(hook.url))).task
    await hook.until(1)
    await wait_found(served_by_nobody(stores(first)))
    fresh = {"namespace": first.settings.namespace, "push_encryption_keys": (base64.b64encode(b"n" * 32).decode(),)}
    second = Registrar(dial("1.0", serve(**{**ON, **fresh})))
    assert (await second.get(task.id, task.id)).fault.code == -32603
    await second.speaker.send("echo", task=task.id)
    store = stores(first)

    async def buried() -> bool:
        return ["secret_unreadable" in letter.doc for letter in await store.push.list_dead_letters()] == [True]

    await wait_found(buried)
    assert len(hook.told) == 1


# --- leaving --------------------------------------------------------------------------------------------------------


async def test_a_worker_that_goes_hands_its_deliveries_on(
    serve: Serve, dial: Dial, hook: Hook, stores: Callable[[Served], Store], real_engine: Any, tmp_path: Any
) -> None:
    namespace = f"h{uuid.uuid4().hex[:8]}"
    hook.statuses = [503] * 3
    slow = {**ON, "namespace": namespace, "push_retry_seconds": 30}
    with serving(settings_for(real_engine, **slow), Puppet(tmp_path)) as first:
        mine = Registrar(dial("1.0", first))
        task = (await mine.send("echo", mine.config(hook.url))).task
        await hook.until(1)
        store = stores(first)
    ref = DeliveryRef(ANONYMOUS.key, task.id)
    book = await store.push.read_push_configs(ref)
    assert book is not None
    assert book.owner == ""
    hook.statuses = []
    serve(**{**ON, "namespace": namespace})
    await hook.until_state("completed")
    await wait_until(lambda: len(hook.told) == 2)
    assert hook.told[0].id == hook.told[1].id
