"""A primary that Sentinels watch: found by its service's name, and found again after a failover."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stores import Store, open_store
from stores.errors import StoreUnavailable
from stores.records import AdmitReply, Admitted, Replayed
from stores.topology import Sentinels, Single, topology
from tests.contract.builders import admission, admit, finish, running
from tests.contract.conftest import assert_every_key_lapses
from tests.support.engines import Engine, engine, free_port, server_binary
from tests.support.wait import wait_found

SERVICE = "main"
FAILOVER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Watched:
    primary: Engine
    replica: Engine
    url: str


@contextmanager
def sentinel(folder: Path, primary: Engine) -> Iterator[int]:
    port = free_port()
    config = folder / f"sentinel-{port}.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} 1000\n"
        f"sentinel failover-timeout {SERVICE} 6000\n"
    )
    with (folder / f"sentinel-{port}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(server_binary("valkey")), str(config), "--sentinel"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    with ExitStack() as stack:
        primary = stack.enter_context(engine("valkey", port=0))
        follow = ("--replicaof", "127.0.0.1", str(primary.port), "--repl-diskless-sync-delay", "0")
        replica = stack.enter_context(engine("valkey", port=0, args=follow))
        ports = [stack.enter_context(sentinel(tmp_path, primary)) for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        url = f"redis+sentinel://{hosts}/{SERVICE}"
        await wait_until_agreed(ports)
        yield Watched(primary, replica, url)


async def wait_until_agreed(ports: list[int]) -> None:
    """Sentinels find each other and the replica through the primary; before that nobody could be elected."""
    for port in ports:
        probe = open_store(f"redis://127.0.0.1:{port}/0", "probe")

        async def agreed(probe: Store = probe) -> bool:
            try:
                state = await probe.client.call("SENTINEL", "MASTER", SERVICE)
            except StoreUnavailable:
                return False
            facts = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
            return int(facts["num-other-sentinels"]) == 2 and int(facts["num-slaves"]) == 1

        await wait_found(agreed, seconds=FAILOVER_SECONDS)
        await probe.close()


async def insisting(store: Store, message_id: str) -> AdmitReply:
    """One message, sent again while there is no primary, as an orchestrator would."""
    asked = admission("after", message_id)
    deadline = asyncio.get_running_loop().time() + FAILOVER_SECONDS
    while True:
        try:
            return await admit(store, asked)
        except StoreUnavailable:
            assert asyncio.get_running_loop().time() < deadline, "nobody became primary"
            await asyncio.sleep(0.1)


async def test_after_a_failover_the_new_primary_has_what_was_replicated_and_takes_new_turns(watched: Watched) -> None:
    store = open_store(watched.url, "sentinel")
    store.signals.start()
    heard: list[str] = []
    await store.signals.listen("news", heard.append)
    asked = admission("before", "m1")
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await finish(store, reply.ticket)
    assert await store.client.call("WAIT", 1, 10_000) == 1, "the replica has it"

    watched.primary.kill()

    assert isinstance(await insisting(store, "m2"), Admitted)
    replayed = await admit(store, admission("before", "m1", token="a retry"))
    assert isinstance(replayed, Replayed)
    assert replayed.task_id == asked.task_id
    assert (await store.client.call("CONFIG", "GET", "port"))["port"] == str(watched.replica.port)

    async def wakes_again() -> bool:
        await store.client.call("PUBLISH", "news", "look")
        return "look" in heard

    await wait_found(wakes_again, seconds=FAILOVER_SECONDS)
    await assert_every_key_lapses(store)
    await store.close()


async def test_a_turn_is_taken_from_the_named_service(watched: Watched) -> None:
    store = open_store(f"{watched.url}/2", "sentinel")
    await running(store)
    assert "db=2" in await store.client.call("CLIENT", "INFO")
    await store.close()


async def test_no_sentinel_there_is_an_unavailable_store() -> None:
    store = open_store(f"redis+sentinel://127.0.0.1:{free_port()}/{SERVICE}", "sentinel")
    with pytest.raises(StoreUnavailable, match="Sentinel"):
        await admit(store)
    await store.close()


@pytest.mark.parametrize(
    ("url", "service", "plain"),
    [
        ("redis+sentinel://a:1,b:2/main", "main", True),
        ("redis+sentinel://a/main/3", "main", True),
        ("rediss+sentinel://u:p@a:1/main", "main", False),
    ],
)
async def test_an_address_names_the_service(url: str, service: str, plain: bool) -> None:
    found = topology(url)
    assert isinstance(found, Sentinels)
    assert (found.service, found.plain) == (service, plain)
    await found.close()


@pytest.mark.parametrize(
    "url",
    ["redis+sentinel://a:1", "redis+sentinel://a:x/main", "redis+sentinel://a/main/db", "redis+sentinel://a/b/1/2"],
)
def test_an_address_that_names_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"Sentinel"):
        topology(url)


def test_a_plain_address_is_one_server() -> None:
    assert isinstance(topology("redis://127.0.0.1:6379/0"), Single)
