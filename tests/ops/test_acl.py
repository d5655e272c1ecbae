"""A fleet over TLS as the ACL user that docs/security.md describes: everything works, and it may do nothing else."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stores import open_store
from stores.client import Client
from stores.errors import StoreDenied
from tests.ops.conftest import Done, Nonstick, unique
from tests.processes.conftest import quick_settings
from tests.push.certificates import self_signed
from tests.push.hooks import Hook, Registrar
from tests.support.agents import Ledger
from tests.support.client import Speaker
from tests.support.engines import EngineName, engine
from tests.support.fleet import ROOT, Fleet
from tests.support.fleet import fleet as running_fleet
from tests.support.proxy import fault_proxy
from tests.support.wait import wait_for_state, wait_found, wait_until

NAMESPACE, PASSWORD, OWN = "guarded", "sesame", "the-operators-own"
# What the client library says when it connects, and what pub/sub needs.
GREETING = {"hello", "auth", "select", "client|setinfo", "subscribe", "unsubscribe"}
# What is asked for and done without: settings, and what newer engines tell the client library of themselves.
EXPECTED = {"config", "config|get", "client"}


def documented() -> list[str]:
    """The words of the line in the documentation."""
    [block] = re.findall(r"```acl\n(.*?)```", (ROOT / "docs/security.md").read_text(), re.DOTALL)
    return str(block).split()


def on_a_cluster() -> set[str]:
    """What the documentation adds for a Cluster."""
    [more] = re.findall(r"On a Cluster add `([^`]+)`", (ROOT / "docs/security.md").read_text())
    return {word[1:] for word in str(more).split()}


def sent() -> set[str]:
    """Every command in the sources, with its subcommand where an ACL can tell them apart."""
    found: set[str] = set()
    for path in (ROOT / "stores/lua").rglob("*.lua"):
        found |= {word.lower() for word in re.findall(r"redis\.call\('([A-Z]+)'", path.read_text())}
    sources = [*(ROOT / "stores").glob("*.py"), *(ROOT / "server/commands").rglob("*.py")]
    for text in (path.read_text() for path in sources):
        for word, below in re.findall(r'(?:call\(|execute\(|\[)\s*"([A-Z]+)"(?:, "([A-Z]+)")?', text):
            nested = word in ("SCRIPT", "MEMORY", "CONFIG", "CLUSTER")
            found.add(f"{word}|{below}".lower() if nested else word.lower())
    return found


def test_the_documented_line_allows_what_is_sent_and_nothing_else() -> None:
    allowed = {word[1:] for word in documented() if word.startswith("+")}
    assert (allowed | on_a_cluster()) - GREETING == sent() - {"config|get"}
    assert not allowed & on_a_cluster()
    assert [word for word in documented()[:9] if word[0] in "~&"] == ["~NAMESPACE:*", "&NAMESPACE:*"]
    assert not [word for word in documented() if "@" in word]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A fleet whose only way to its store is TLS and the documented user."""

    fleet: Fleet
    url: str
    own_url: str


@pytest.fixture(scope="module", params=["valkey", "redis6"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    name: EngineName = request.param
    folder = tmp_path_factory.mktemp(f"guarded-{name}")
    tls, certificate = _tls(folder)
    with engine(name, port=0, args=("--requirepass", OWN)) as server:
        own_url = f"redis://:{OWN}@127.0.0.1:{server.port}/0"
        _make_user(own_url)
        assert server.port is not None
        with fault_proxy(server.port, tls) as proxy:
            url = f"rediss://nonstick:{PASSWORD}@127.0.0.1:{proxy.port}/0?ssl_ca_certs={certificate}"
            settings = quick_settings(
                server,
                redis_url=url,
                namespace=NAMESPACE,
                push_notifications_enabled=True,
                push_allow_private_targets_for_tests_only=True,
                push_max_attempts=1,
                caller_max_requests_per_second=1000,
                max_contexts=50,
                drain_seconds=3,
            )
            with running_fleet(2, settings, folder) as running:
                yield Guarded(running, url, own_url)


def _tls(folder: Path) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(self_signed("127.0.0.1", key))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, private)
    return tls, certificate


def _make_user(own_url: str) -> None:
    import redis

    words = [word.replace("NAMESPACE", NAMESPACE).replace("PASSWORD", PASSWORD) for word in documented()]
    with redis.Redis.from_url(own_url) as own:
        assert own.execute_command(*words)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with Hook() as running:
        yield running


async def denials(own_url: str) -> set[str]:
    """What the engine refused to the user since it started."""
    client = Client(own_url)
    try:
        entries = await client.call("ACL", "LOG")
    finally:
        await client.close()
    return {it["object"] for it in entries if it["username"] == "nonstick"}


async def test_turns_callbacks_and_recovery_work_as_that_user(
    guarded: Guarded, http: httpx.AsyncClient, hook: Hook
) -> None:
    guarded.fleet.start(2)
    ledger = Ledger(guarded.fleet.folder)
    one, other = guarded.fleet.nodes
    here, there = Speaker(http, one.url, "1.0"), Speaker(http, other.url, "1.0")

    first = await here.send("stream 6", context="talk", message_id="m1")
    assert first.task.state == "completed"
    assert (await there.send("stream 6", context="talk", message_id="m1")).task.id == first.task.id
    asked = (await here.send("ask", context="questions")).task
    assert (await there.send("echo", task=asked.id)).task.state == "completed"
    assert (await there.list()).result["totalSize"] >= 2

    gate = unique("gate")
    held = (await here.send(f"stream 6 {gate}", context="watched", wait=False)).task.id
    async with there.subscribe(held) as stream:
        await stream.next()
        ledger.open(gate)
        await stream.until("completed")

    running = (await here.send("hold never", context="held", wait=False)).task.id
    queued = (await there.send("echo", context="held", wait=False)).task.id
    assert (await there.cancel(queued)).task.state == "canceled"
    assert (await there.cancel(running)).task.state == "canceled"

    mine = Registrar(here)
    await mine.stream("stream 3", mine.config(hook.url))
    await hook.until_state("completed")

    lost = (await here.send("hold never", context="lost", wait=False)).task.id
    await wait_until(lambda: ledger.notes("start", task=lost))
    one.kill()
    assert (await wait_for_state([there], lost, "failed")).data["error_type"] == "worker_lost"
    assert "nonstick_fleet_workers" in (await http.get(f"{other.url}/metrics")).text
    assert await denials(guarded.own_url) <= EXPECTED


async def test_every_command_of_the_operator_works_as_that_user(
    guarded: Guarded, http: httpx.AsyncClient, hook: Hook, nonstick: Nonstick
) -> None:
    guarded.fleet.start(2)
    node = guarded.fleet.nodes[0]
    here = Speaker(http, node.url, "1.0")
    hook.always = 404
    mine = Registrar(here)
    for _ in range(2):
        await mine.send("echo", mine.config(hook.url))
    held, failing, releasing = [
        (await here.send("hold never", context=name, wait=False)).task.id for name in ("a", "b", "c")
    ]

    async def run(*words: str) -> Done:
        done: Done = await nonstick(*words, namespace=NAMESPACE, store=guarded.url)
        assert done.code == 0, done
        return done

    async def letters() -> list[Any] | None:
        found: list[Any] = (await run("push", "list", "--json")).data["dead_letters"]
        return found if len(found) >= 2 else None

    await wait_until(lambda: len(hook.told) >= 2)
    assert {it["task"] for it in (await run("ps", "--json")).data} >= {held, failing, releasing}
    assert (await run("tasks", "list", "--json")).data
    assert (await run("tasks", "show", held, "--json")).data["task"] == held
    await run("tasks", "cancel", held)
    await run("tasks", "fail", failing, "--reason", "tried")
    assert (await run("contexts", "list", "--json")).data
    await run("contexts", "show", "c")
    await run("contexts", "release", "c", "--force")
    assert len((await run("workers", "list", "--json")).data) >= 2
    one, *_ = await wait_found(letters, what="two dead letters")
    await run("push", "retry", "--task", one["task"])
    await run("push", "drop", "--all")
    told = await run("doctor", "--json")
    assert {it["about"] for it in told.data["findings"] if it["level"] == "bad"} == set()
    assert "CONFIG GET" in next(it["found"] for it in told.data["findings"] if it["about"] == "permissions")
    await run("capacity")
    drained = (await run("workers", "list", "--json")).data
    await run("workers", "drain", next(it["id"] for it in drained if it["standing"] == "alive"))
    assert await denials(guarded.own_url) <= EXPECTED


async def test_that_user_reaches_nothing_outside_its_namespace(guarded: Guarded) -> None:
    store = open_store(guarded.url, "neighbour")
    try:
        for words in (
            ("GET", "neighbour:{fleet}:generation"),
            ("FLUSHALL",),
            ("KEYS", "*"),
            ("CONFIG", "SET", "save", ""),
        ):
            with pytest.raises(StoreDenied):
                await store.client.call(*words)
        with pytest.raises(StoreDenied):
            await store.fleet.beat_worker("w", "{}")
        with pytest.raises(StoreDenied):
            await store.client.call("PUBLISH", "neighbour:w:1", "cancel")
    finally:
        await store.close()
