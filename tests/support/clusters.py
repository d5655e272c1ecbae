"""A real Redis Cluster for tests: valkey-servers on loopback, primaries that share the slots, and replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import redis

from tests.support.engines import Engine, engine, free_port

SLOTS = 16384
FORM_SECONDS = 60.0


@dataclass(slots=True)
class Cluster:
    """Running nodes; `replicas[i]` follows `primaries[i]`, as far as nothing failed over."""

    primaries: list[Engine]
    replicas: list[Engine] = field(default_factory=list)

    name = "cluster"

    @property
    def nodes(self) -> list[Engine]:
        return [*self.primaries, *self.replicas]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)


def _probe(node: Engine) -> Any:
    # The library leaves these calls untyped.
    return redis.Redis(host="127.0.0.1", port=node.port or 0, decode_responses=True)


def _until(look: Any, what: str) -> None:
    deadline = time.monotonic() + FORM_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {FORM_SECONDS} s")
        time.sleep(0.02)


@contextmanager
def cluster(*, replicas: bool = False, timeout_ms: int = 2000, shards: int = 3) -> Iterator[Cluster]:
    """A Cluster that is up. `timeout_ms` is how long a primary is silent until its replica takes its place."""
    with ExitStack() as stack:
        buses: dict[int, int] = {}

        def start() -> Engine:
            bus = free_port()
            args = (
                *("--cluster-enabled", "yes", "--cluster-port", str(bus)),
                *("--cluster-node-timeout", str(timeout_ms), "--repl-diskless-sync-delay", "0"),
                *("--cluster-replica-validity-factor", "0"),
            )
            node = stack.enter_context(engine("valkey", port=0, args=args))
            buses[node.port or 0] = bus
            return node

        found = Cluster([start() for _ in range(shards)])
        if replicas:
            found.replicas = [start() for _ in range(shards)]
        form(found, buses)
        yield found


def form(made: Cluster, buses: dict[int, int]) -> None:
    """Gives out the slots, lets the nodes meet, and waits until each of them calls it a working Cluster."""
    first = made.primaries[0]
    shards = len(made.primaries)
    links = {node.port: _probe(node) for node in made.nodes}
    try:
        for number, node in enumerate(made.primaries):
            low, high = SLOTS * number // shards, SLOTS * (number + 1) // shards - 1
            links[node.port].execute_command("CLUSTER", "ADDSLOTSRANGE", low, high)
        for node in made.nodes[1:]:
            links[node.port].execute_command("CLUSTER", "MEET", "127.0.0.1", first.port, buses[first.port or 0])

        def all_met() -> bool:
            told = [link.execute_command("CLUSTER INFO") for link in links.values()]
            return all(int(facts["cluster_known_nodes"]) == len(links) for facts in told)

        _until(all_met, "every node knows every node")
        for primary, replica in zip(made.primaries, made.replicas, strict=False):
            name = links[primary.port].execute_command("CLUSTER", "MYID")

            def follows(replica: Engine = replica, name: str = name) -> bool:
                try:
                    return bool(links[replica.port].execute_command("CLUSTER", "REPLICATE", name))
                except redis.ResponseError:
                    return False  # it has not heard of that primary yet

            _until(follows, "the replica follows its primary")

        def all_up() -> bool:
            for link in links.values():
                facts = link.execute_command("CLUSTER INFO")
                if facts["cluster_state"] != "ok" or int(facts["cluster_slots_ok"]) != SLOTS:
                    return False
            linked = [link.info("replication") for link in links.values()]
            return all(facts["role"] == "master" or facts["master_link_status"] == "up" for facts in linked)

        _until(all_up, "the Cluster is up")
    finally:
        for link in links.values():
            link.close()
