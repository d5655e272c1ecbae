"""A Cluster: contexts on every shard, slots that move, primaries that die, what is left undone between two slots."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
from redis.crc import key_slot

from stores import Store, apart_fleet, open_store
from stores.caretaker import roster_entry
from stores.client import Client
from stores.cluster import ClusterClient
from stores.errors import StoreUnavailable
from stores.keys import ContextRef, TurnRef
from stores.records import (
    Admission,
    AdmitReply,
    Admitted,
    Appended,
    Finished,
    Limits,
    Refused,
    Replayed,
    Ticket,
)
from stores.topology import Seeds
from tests.contract.builders import (
    CALLER,
    WORKER,
    admission,
    admit,
    ending,
    finish,
    live,
    queued,
    roster,
    running,
    waiting,
)
from tests.contract.conftest import assert_every_key_lapses
from tests.support.clusters import Cluster, cluster
from tests.support.engines import Engine, free_port
from tests.support.wait import wait_found, wait_until

FAILOVER_SECONDS = 60.0


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with cluster() as running_cluster:
        yield running_cluster


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
async def store(three: Cluster, limits: Limits) -> AsyncIterator[Store]:
    opened = open_store(three.url, f"c{random.randrange(1 << 30):x}", limits)
    yield opened
    await assert_every_key_lapses(opened)
    await opened.close()


async def sweep_all(store: Store) -> None:
    """As many sweeps as one round takes, without their pauses."""
    assert store.apart is not None
    await store.settled(20)
    while True:
        await store.client.call("DEL", f"{store.keys.live}:sweep")
        seen = await store.apart.care.sweep(age_ms=-1000)
        if seen < 64:
            return


# --- where things are --------------------------------------------------------------------------------------------


async def test_contexts_spread_over_all_shards(store: Store) -> None:
    refs = []
    for number in range(60):
        ticket = await running(store, context_id=f"c{number}")
        refs.append(ticket.context)
        await finish(store, ticket)
    held = [
        set((await node.call("SCAN", 0, "MATCH", f"{store.keys.namespace}:*:c:*", "COUNT", 10_000))[1])
        for node in await store.client.nodes()
    ]
    assert [len(keys) > 0 for keys in held] == [True, True, True]
    assert set.union(*held) == {store.keys.context(ref) for ref in refs}
    # What many share is spread as well: the live contexts, the fleet and two callers.
    others = [store.keys.live, store.keys.workers, store.keys.index(CALLER), store.keys.index("0" * 32)]
    assert len({key_slot(key.encode()) for key in others}) == 4


async def test_a_plain_turn_waits_for_three_round_trips(store: Store) -> None:
    await finish(store, await running(store, context_id="warm"))
    await store.settled(20)
    before = {name: sum(row[:-1]) for name, row in store.client.meter.rows.items()}
    ticket = await running(store, context_id="one")
    await store.turns.finish_turn(ticket, ending())
    await store.settled(20)
    after = {name: sum(row[:-1]) for name, row in store.client.meter.rows.items()}
    spent = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert spent == {
        # at once
        "reserve_place": 1,
        "move_roster": 2,  # the second one after the end
        # then
        "admit_turn": 1,
        # then
        "finish_turn": 1,
        # and nobody waits for
        "index_tasks": 2,
        "settle_apart": 1,
        "release_place": 1,
    }


async def test_any_node_is_enough_to_find_the_others(three: Cluster) -> None:
    dead = free_port()
    store = open_store(f"redis+cluster://127.0.0.1:{dead},127.0.0.1:{three.primaries[2].port}", "seeds")
    await finish(store, await running(store))
    assert len(await store.client.nodes()) == 3
    await store.ping()
    await store.close()


async def test_no_node_there_is_an_unavailable_store() -> None:
    store = open_store(f"redis+cluster://127.0.0.1:{free_port()}", "seeds")
    with pytest.raises(StoreUnavailable, match="no node"):
        await admit(store)
    await store.close()


async def test_a_failed_ping_leaves_no_call_behind(three: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is still under way when the client is closed would open a connection again, which nobody closes."""
    store, gone = open_store(three.url, "ping"), Client(f"redis://127.0.0.1:{free_port()}/0")
    nodes = [gone, *await store.client.nodes()]

    async def with_one_gone() -> list[Client]:
        return nodes

    monkeypatch.setattr(store.client, "nodes", with_one_gone)
    three.primaries[0].pause()
    try:
        ping = asyncio.create_task(store.ping())
        await wait_until(lambda: gone.meter.faults)
        await asyncio.sleep(0.1)  # for a ping that would not wait for the silent node
    finally:
        three.primaries[0].resume()
    with pytest.raises(StoreUnavailable):
        await ping
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await gone.close()
    await store.close()


def test_an_address_names_nodes_and_how_they_are_reached() -> None:
    seeds = Seeds.of("rediss+cluster://user:p%40ss@a:7000,b,[::1]:7001?ssl_ca_certs=/ca.pem")
    assert seeds.hosts == (("a", 7000), ("b", 6379), ("::1", 7001))
    assert seeds.url("::1", 7001) == "rediss://user:p%40ss@[::1]:7001/0?ssl_ca_certs=/ca.pem"
    with pytest.raises(ValueError, match="one database"):
        Seeds.of("redis+cluster://a:7000/2")


# --- slots that move ---------------------------------------------------------------------------------------------


async def identity(node: Client) -> str:
    return str(await node.call("CLUSTER", "MYID"))


async def test_a_call_follows_its_slot_while_it_moves_and_after(store: Store) -> None:
    """The steps of a resharding tool: the slot is between two nodes, its keys come over, then it has another owner."""
    ticket = await running(store)
    await store.settled(20)
    assert isinstance(store.client, ClusterClient)
    slot = key_slot(store.keys.context(ticket.context).encode())
    nodes = list(await store.client.nodes())
    names = [await identity(node) for node in nodes]
    held = [int(await node.call("CLUSTER", "COUNTKEYSINSLOT", slot)) for node in nodes]
    source = held.index(max(held))
    target = (source + 1) % 3
    await nodes[target].call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
    await nodes[source].call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
    try:
        # A new context of the same slot is asked of the node that gets it; this one's keys are still where they were.
        assert await store.turns.running_marks([ticket]) == [(True, False)]
        keys = await nodes[source].call("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        port = Seeds.of(nodes[target].url.replace("redis://", "redis+cluster://")).hosts[0][1]
        await nodes[source].call("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)
        # ASK: the keys are there, the slot is not yet.
        assert await store.turns.running_marks([ticket]) == [(True, False)]
        assert isinstance(await store.turns.append_events(ticket, 2, [("status", "", "{}")]), Appended)
    finally:
        for node in (nodes[target], nodes[source], *nodes):
            await node.call("CLUSTER", "SETSLOT", slot, "NODE", names[target])
    # MOVED.
    assert isinstance(await store.turns.finish_turn(ticket, ending(seq=3)), Finished)
    assert await live(store) == set()
    for node in nodes:
        await node.call("CLUSTER", "SETSLOT", slot, "STABLE")


async def test_scripts_are_sent_to_each_node_that_lacks_them(store: Store) -> None:
    await finish(store, await running(store))
    for node in await store.client.nodes():
        await node.call("SCRIPT", "FLUSH")
    for number in range(12):
        await finish(store, await running(store, context_id=f"c{number}"))
    assert (await store.tasks.list_tasks(CALLER)).total == 13


async def test_the_next_node_is_listened_to_when_one_is_gone(store: Store) -> None:
    store.signals.start()
    await store.ping()
    heard: list[str] = []
    await store.signals.listen("news", heard.append)
    for _ in range(3):
        for node in await store.client.nodes():
            await node.call("CLIENT", "KILL", "TYPE", "pubsub")
        heard.clear()

        async def wakes() -> bool:
            await store.client.call("PUBLISH", "news", "look")
            return "look" in heard

        await wait_found(wakes)


# --- between two slots -------------------------------------------------------------------------------------------


async def test_a_place_whose_admission_never_came_is_given_back(store: Store) -> None:
    """Its worker died after it had reserved."""
    assert store.apart is not None
    context = ContextRef.of(CALLER, "never")
    hold = await store.apart.places.reserve_place(context, limited=True)
    assert await live(store) == {context.text}
    await sweep_all(store)
    assert await live(store) == set()
    # The admission was only late: it is not let in under what was given back.
    asked = admission("never")
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    assert await live(store) == {context.text}
    assert hold.stamp


async def test_r01_an_admission_under_a_stamp_that_was_given_back_reserves_again(store: Store) -> None:
    assert store.apart is not None
    places = store.apart.places
    asked = admission("late")
    first = places.reserve_place
    swept = 0

    async def slow(context: ContextRef, *, limited: bool, floor: str = "0") -> object:
        nonlocal swept
        hold = await first(context, limited=limited, floor=floor)
        if not swept:
            swept += 1
            await sweep_all(store)
            assert await live(store) == set()
        return hold

    places.reserve_place = slow  # type: ignore[method-assign,assignment]
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    assert swept == 1
    assert await live(store) == {asked.context.text}


async def test_what_a_worker_left_undone_at_its_end_is_done_by_the_sweep(store: Store) -> None:
    """It died after FINISH: the task is not listed as ended, the context has its place, its roster the turn."""
    ticket = await running(store)
    await store.settled(20)
    await forget_errands(store)
    assert isinstance(await store.turns.finish_turn(ticket, ending()), Finished)
    await restore_errands(store)
    assert await live(store) == {ticket.context.text}
    index = await store.client.call("ZRANGE", store.keys.index(CALLER), 0, -1)
    assert not any("completed" in member for member in index)

    await sweep_all(store)

    assert await live(store) == set()
    page = await store.tasks.list_tasks(CALLER, state="completed")
    assert [task.task_id for task in page.tasks] == [ticket.task_id]
    assert (await store.tasks.list_tasks(CALLER, state="working")).total == 0


async def test_a_task_whose_listing_was_never_written_is_listed_by_the_sweep(store: Store) -> None:
    await forget_errands(store)
    ticket = await running(store)
    await restore_errands(store)
    assert (await store.tasks.list_tasks(CALLER)).total == 0
    await sweep_all(store)
    assert [task.task_id for task in (await store.tasks.list_tasks(CALLER)).tasks] == [ticket.task_id]


async def test_a_replay_does_not_give_a_place_back_while_something_is_owed(store: Store) -> None:
    asked = admission()
    reply = await admit(store, asked)
    assert isinstance(reply, Admitted)
    await store.settled(20)
    await forget_errands(store)
    await store.turns.finish_turn(reply.ticket, ending())
    await restore_errands(store)
    # The duplicate's own settling does what the dead worker owed, and only then gives the place back.
    assert isinstance(await admit(store, admission(token="again", task_id=asked.task_id)), Replayed)
    assert await live(store) == set()
    assert (await store.tasks.list_tasks(CALLER, state="completed")).total == 1


async def test_hints_that_a_failover_lost_are_made_again(store: Store) -> None:
    ticket = await running(store, context_id="runs")
    left = await running(store, context_id="waits")
    await queued(store, context_id="waits", message_id="m2")
    await finish(store, left, take_next=False)
    await store.settled(20)
    for key in (store.keys.turns(WORKER), store.keys.workers, store.keys.ready):
        await store.client.call("DEL", key)

    await sweep_all(store)

    assert await roster(store) == {TurnRef(ticket.context, ticket.task_id).text}
    assert WORKER in await store.fleet.workers()
    assert set(await store.client.call("SMEMBERS", store.keys.ready)) == {left.context.text}


async def test_r16_an_entry_with_nothing_behind_it_goes_after_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker may only seem dead, and be between the entry and its admission."""
    assert store.apart is not None
    entry = roster_entry(ContextRef.of(CALLER, "ctx"), "task")
    await store.apart.places.move_roster("dead", ("+", entry))
    assert await store.fleet.reap_worker("dead", "") == (entry,)
    await store.fleet.settle_hint("dead", entry, taken=False)
    assert await store.fleet.reap_worker("dead", "") == (entry,)
    monkeypatch.setattr(apart_fleet, "GRACE_MS", 100)

    async def settled() -> bool:
        left = await store.fleet.reap_worker("dead", "")
        await store.fleet.settle_hint("dead", entry, taken=False)
        return left == ()

    await wait_found(settled)
    assert "dead" not in await store.fleet.workers()


async def test_a_late_note_does_not_undo_a_newer_one(store: Store) -> None:
    """Two workers list the same task; the first one's call arrives last."""
    assert store.apart is not None
    task = await waiting(store)
    await store.settled(20)
    now = task.at_ms * 1000
    places = store.apart.places
    new = f"{now + 10_000_000} closed|{task.at_ms + 10}|completed waiting|{task.at_ms}|input_required"
    old = f"{now + 5_000_000} open|{task.at_ms + 5}|working waiting|{task.at_ms}|input_required"
    await places.index_tasks(CALLER, [(task.task_id, new)])
    await places.index_tasks(CALLER, [(task.task_id, old)])
    members = await store.client.call("ZRANGE", store.keys.index(CALLER), 0, -1)
    assert [member.split("|")[:2] for member in members] == [["e", "completed"]]
    # And a listing shows the task as it is, whatever the index says of it.
    page = await store.tasks.list_tasks(CALLER)
    assert [(each.task_id, each.state) for each in page.tasks] == [(task.task_id, "input_required")]
    assert (await store.tasks.list_tasks(CALLER, state="input_required")).total == 1


async def forget_errands(store: Store) -> None:
    """From here on this process does nothing after its answers, as if it died each time."""
    assert store.apart is not None
    errands = store.apart._errands

    def never(errand: object) -> None:
        errand.close()  # type: ignore[attr-defined]

    errands.run = never  # type: ignore[method-assign,assignment]


async def restore_errands(store: Store) -> None:
    assert store.apart is not None
    del store.apart._errands.run


# --- all at once -------------------------------------------------------------------------------------------------


class Crowd:
    """Workers who send, repeat, finish, die and sweep at random; contexts few enough to meet."""

    def __init__(self, stores: list[Store], seed: int, contexts: int) -> None:
        self.stores = stores
        self.chance = random.Random(seed)
        self.contexts = contexts
        self.told: Counter[str] = Counter()
        self.running: list[Ticket] = []

    async def act(self, number: int) -> None:
        store = self.stores[number % len(self.stores)]
        worker = f"w{number}"
        for turn in range(12):
            name = f"c{self.chance.randrange(self.contexts)}"
            asked = admission(name, f"m{self.chance.randrange(25)}")
            copies = 2 if self.chance.random() < 0.3 else 1
            replies = await asyncio.gather(
                *(
                    admit(self.chance.choice(self.stores), replaced(asked, copy), f"{worker}-{copy}")
                    for copy in range(copies)
                )
            )
            for reply in replies:
                await self.end(store, reply, turn)
            if self.chance.random() < 0.15:
                await sweep_now(store)

    async def end(self, store: Store, reply: AdmitReply, turn: int) -> None:
        self.told[type(reply).__name__] += 1
        ticket = reply.ticket if isinstance(reply, Admitted) else None
        while ticket is not None:
            if self.chance.random() < 0.1:
                self.running.append(ticket)  # its worker is gone for good
                return
            how = ("input_required", "waiting") if self.chance.random() < 0.2 else ("completed", "closed")
            done = await store.turns.finish_turn(ticket, ending(*how, seq=5))
            ticket = done.next if isinstance(done, Finished) else None


def replaced(asked: Admission, copy: int) -> Admission:
    """The same message from another worker: its own attempt, its own task."""
    return asked if not copy else admission(asked.context_id, "", mid=asked.mid)


async def sweep_now(store: Store) -> None:
    assert store.apart is not None
    await store.client.call("DEL", f"{store.keys.live}:sweep")
    await store.apart.care.sweep(age_ms=-1000)


async def live_by_their_own_keys(store: Store, contexts: int) -> set[str]:
    found = set()
    for number in range(contexts):
        ref = ContextRef.of(CALLER, f"c{number}")
        run, open_tasks = await store.client.call("HMGET", store.keys.context(ref), "run", "open")
        waits = await store.client.call("LLEN", store.keys.queue(ref))
        if run or (open_tasks or " ") != " " or waits:
            found.add(ref.text)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_r01_a_live_context_is_in_the_set_whatever_happens(three: Cluster, store: Store, seed: int) -> None:
    contexts = 5
    others = [open_store(three.url, store.keys.namespace, store.limits) for _ in range(3)]
    crowd = Crowd([store, *others], seed, contexts)
    watching = True
    looks = 0

    async def watch() -> None:
        """Read in this order: a context that is live by its own keys, and still has no place a moment later, has lost
        it. (Its end may come between: then it is not live any more at the second look.)"""
        nonlocal looks
        while watching:
            alive = await live_by_their_own_keys(store, contexts)
            there = set(await store.client.call("ZRANGE", store.keys.live, 0, -1))
            if missing := alive - there:
                still = await live_by_their_own_keys(store, contexts)
                there = set(await store.client.call("ZRANGE", store.keys.live, 0, -1))
                again = await live_by_their_own_keys(store, contexts)
                assert not (missing & still & again) - there
            looks += 1
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(crowd.act(number) for number in range(8)))
    watching = False
    await watcher
    assert looks > 3
    for each in (store, *others):
        await each.settled(20)
    alive = await live_by_their_own_keys(store, contexts)
    assert alive <= await live(store)
    # What died is taken over, and then nothing is left but what waits for its caller.
    for ticket in crowd.running:
        taken = await store.turns.take_over("heir", ticket.context, owner=ticket.worker)
        while taken is not None:
            done = await store.turns.finish_turn(taken[1], ending("failed", seq=9))
            assert isinstance(done, Finished)
            taken = ("next", done.next) if done.next is not None else None
    await sweep_all(store)
    assert await live(store) == await live_by_their_own_keys(store, contexts)
    assert crowd.told["Admitted"] > 5
    assert crowd.told["InFlight"] + crowd.told["Replayed"] + crowd.told["Reused"] + crowd.told["Queued"] > 5
    # Every task is listed as it is.
    page = await store.tasks.list_tasks(CALLER, size=1000)
    for view in page.tasks:
        listed = await store.tasks.list_tasks(CALLER, state=view.state, size=1000)
        assert view.task_id in {each.task_id for each in listed.tasks}
    for other in others:
        await other.close()


@pytest.mark.parametrize("limits", [Limits(max_contexts=5)])
async def test_the_cap_is_exact_under_a_crowd(three: Cluster, store: Store) -> None:
    others = [open_store(three.url, store.keys.namespace, store.limits) for _ in range(3)]
    stores = [store, *others]
    for _ in range(3):
        replies = await asyncio.gather(*(admit(stores[n % 4], admission(f"cap-{n}"), f"w{n % 4}") for n in range(40)))
        won = [reply.ticket for reply in replies if isinstance(reply, Admitted)]
        assert len(won) == 5
        assert [reply for reply in replies if not isinstance(reply, Admitted)] == [Refused("context_limit")] * 35
        assert await live(store) == {ticket.context.text for ticket in won}
        for ticket in won:
            await finish(store, ticket)
        for each in stores:
            await each.settled(20)
        assert await live(store) == set()
        for number in range(40):
            await store.client.call("DEL", store.keys.outcome(ContextRef.of(CALLER, f"cap-{number}"), "m1"))
        stores = stores[1:] + stores[:1]
        # The same contexts again, with new messages.
        replies = await asyncio.gather(
            *(admit(stores[n % 4], admission(f"cap-{n}", f"x{random.random()}"), "w") for n in range(12))
        )
        won = [reply.ticket for reply in replies if isinstance(reply, Admitted)]
        assert len(won) == 5
        for ticket in won:
            await finish(stores[0], ticket)
        await stores[0].settled(20)
        break
    for other in others:
        await other.close()


# --- a primary dies ----------------------------------------------------------------------------------------------


async def insisting(store: Store, asked: Admission) -> AdmitReply:
    """One message, sent again while its shard has no primary, as an orchestrator would."""
    deadline = asyncio.get_running_loop().time() + FAILOVER_SECONDS
    while True:
        try:
            return await admit(store, asked)
        except StoreUnavailable:
            assert asyncio.get_running_loop().time() < deadline, "nobody became primary"
            await asyncio.sleep(0.1)


async def test_a_replica_takes_its_primarys_place_and_has_what_was_replicated() -> None:
    with cluster(replicas=True, timeout_ms=1000) as made:
        store = open_store(made.url, "failover")
        store.signals.start()
        heard: list[str] = []
        await store.signals.listen("news", heard.append)
        asked = [admission(f"c{number}") for number in range(30)]
        for each in asked:
            reply = await admit(store, each)
            assert isinstance(reply, Admitted)
            await finish(store, reply.ticket)
        await store.settled(20)
        for node in await store.client.nodes():
            assert await node.call("WAIT", 1, 10_000) == 1, "the replicas have it"

        await asyncio.to_thread(made.primaries[1].kill)

        again = [await insisting(store, admission(each.context_id, token="again")) for each in asked]
        assert [type(reply) for reply in again] == [Replayed] * 30
        fresh = await asyncio.gather(*(insisting(store, admission(f"new-{number}")) for number in range(30)))
        assert all(isinstance(reply, Admitted) for reply in fresh)
        assert len(await store.client.nodes()) == 3

        async def wakes() -> bool:
            await store.client.call("PUBLISH", "news", "look")
            return "look" in heard

        await wait_found(wakes, seconds=FAILOVER_SECONDS)
        await assert_every_key_lapses(store)
        await store.close()


async def test_no_socket_stays_open_to_a_node_that_left() -> None:
    with cluster(replicas=True, timeout_ms=1000) as made:
        client, victim = ClusterClient(made.url), made.primaries[0]
        node = next(node for node in await client.nodes() if f":{victim.port}/" in node.url)
        await asyncio.gather(*(node.call("PING") for _ in range(20)))
        assert sockets_to(victim) > 1

        await asyncio.to_thread(victim.kill)

        async def left() -> bool:
            try:
                return node not in await client.nodes() and sockets_to(victim) == 0
            except StoreUnavailable:
                return False

        await wait_found(left, seconds=FAILOVER_SECONDS, what="a map without the primary, and no socket to it")
        await client.close()


def sockets_to(server: Engine) -> int:
    """How many sockets of this process lead there, half-open ones too."""
    found = 0
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the folder's own descriptor, which is closed again; a socket without a peer
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as line:
                    found += line.getpeername()[1:2] == (server.port,)
    return found


async def test_a_primary_that_falls_silent_is_not_asked_for_ever() -> None:
    """No connection breaks: its calls are late, the map is read from others, and the replica is found."""
    with cluster(replicas=True, timeout_ms=1000) as made:
        store = open_store(made.url, "silent")
        await asyncio.gather(*(running(store, context_id=f"before-{number}") for number in range(12)))
        made.primaries[0].pause()
        try:
            fresh = await asyncio.gather(*(insisting(store, admission(f"new-{number}")) for number in range(30)))
            assert all(isinstance(reply, Admitted) for reply in fresh)
        finally:
            made.primaries[0].resume()
        for number in range(30):
            assert isinstance(await insisting(store, admission(f"later-{number}")), Admitted)
        await store.close()
