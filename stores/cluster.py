"""A Redis Cluster: which node has a slot, and how a call gets there while nodes come, go and change places.

    redis+cluster://[user:password@]host:port,host:port[,...]     any nodes of it; the others are asked of them

Each primary has a client of its own, with its own connections. A call goes to the node that the map says; where that
node says otherwise (MOVED, ASK), or none answers, the map is read anew and the call repeated, for a bounded time.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import redis.asyncio as redis
from redis.crc import key_slot
from redis.exceptions import NoScriptError, RedisError

from stores.client import Client
from stores.errors import StoreCorrupt, StoreDenied, StoreError, StoreFull, StoreUnavailable
from stores.meter import Meter
from stores.scripts import Argument, Script
from stores.together import all_ended
from stores.topology import Seeds, is_cluster

# How long a call looks for a node that takes it. A failover takes longer: its callers are told to come again.
SEEK_SECONDS = 1.0
_PAUSE_SECONDS = 0.05

# Commands without a key; what is asked of them is the same everywhere, or asked of each node (`nodes`).
_KEYLESS = frozenset(
    {"ACL", "CLIENT", "CLUSTER", "CONFIG", "INFO", "PING", "PUBLISH", "PUBSUB", "SCAN", "SCRIPT", "TIME", "WAIT"}
)

# "<slot> <host>:<port>", as the node said it, or as the library tells it of one command of many.
_PLACE = re.compile(r"\b\d+ ([^\s'\",()]*):(\d+)")

Address = tuple[str, int]


class ClusterClient(Client):
    """Commands and scripts on the primaries of a Cluster. A call has the keys of one slot, a batch any keys."""

    apart = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.meter = Meter()
        self._address = Seeds.of(url)
        self._seeds = list(self._address.hosts)
        self._nodes: dict[Address, Client] = {}
        self._slots: list[tuple[int, int, Address]] = []
        self._known: list[Address] = []
        self._suspect: Address | None = None
        """Who did not answer last: the map is read anew before the next call, and not from this one first."""
        self._map_lock = asyncio.Lock()
        self._maps = 0
        self._ears = itertools.count(random.randrange(1 << 16))

    # --- the map ---------------------------------------------------------------------------------------------

    def _node(self, address: Address) -> Client:
        node = self._nodes.get(address)
        if node is None:
            node = Client(self._address.url(*address), self.meter)
            self._nodes[address] = node
        return node

    async def _read_map(self, since: int) -> None:
        """Reads who has which slots, unless somebody did since."""
        async with self._map_lock:
            if self._maps > since:
                return
            await self._ask_for_map()
        # To a node that left, nobody sends any more, and nobody else closes what it left half-open: at most a pool of
        # file descriptors for each address that a failover or a rollout took away.
        await all_ended(*[node.rest() for address, node in self._nodes.items() if address not in self._known])

    async def _ask_for_map(self) -> None:
        error: StoreError | None = None
        tried = dict.fromkeys([*random.sample(self._known, len(self._known)), *self._seeds])
        for address in sorted(tried, key=lambda address: address == self._suspect):
            try:
                async with asyncio.timeout(1.0):
                    told = await self._node(address).call("CLUSTER", "SLOTS")
            except TimeoutError:
                error = StoreUnavailable(f"{address[0]}:{address[1]} did not answer")
                continue
            except StoreDenied:
                raise
            except StoreError as caught:
                error = caught
                continue
            if self._take(told, address):
                self._maps += 1
                self._suspect = None
                return
            error = StoreUnavailable("no node has slots yet")
        if isinstance(error, StoreCorrupt):
            raise error
        raise StoreUnavailable(f"no node of the Cluster answers: {error}")

    def _take(self, told: Any, asked: Address) -> bool:
        slots, known = [], []
        for first, last, *nodes in _ranges(told):
            places = [(host or asked[0], port) for host, port in nodes]
            slots.append((first, last, places[0]))
            known += places
        if not slots:
            return False
        self._slots = sorted(slots)
        self._known = list(dict.fromkeys(known))
        return True

    async def _owner(self, slot: int | None) -> Address:
        if not self._slots or self._suspect is not None:
            await self._read_map(self._maps)
        if slot is None:
            return self._slots[0][2]
        for first, last, address in self._slots:
            if first <= slot <= last:
                return address
        raise StoreUnavailable(f"no node has slot {slot}")

    async def nodes(self) -> Sequence[Client]:
        await self._read_map(self._maps)
        return [self._node(address) for address in dict.fromkeys(address for _, _, address in self._slots)]

    # --- calls -----------------------------------------------------------------------------------------------

    async def run(
        self, script: Script, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()
    ) -> Any:
        return await self._routed(
            _slot_of(keys), lambda node: node.run(script, keys, args, rest), script, keys, args, rest
        )

    async def run_hot(
        self, script: Script, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()
    ) -> Any:
        return await self._routed(
            _slot_of(keys), lambda node: node.run_hot(script, keys, args, rest), script, keys, args, rest
        )

    async def call(self, *command: Argument) -> Any:
        keys = _keys_of(command)
        return await self._routed(_slot_of(keys) if keys else None, lambda node: node.call(*command), command)

    async def batch(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Several commands of any slots, each node's in one round trip."""
        return await self._spread(
            [_slot_of(_keys_of(command)) for command in commands],
            lambda node, chosen: node.batch([commands[place] for place in chosen]),
            lambda place: self.call(*commands[place]),
        )

    async def run_batch(
        self, script: Script, calls: Sequence[tuple[Sequence[str], Mapping[str, Argument]]]
    ) -> list[Any]:
        return await self._spread(
            [_slot_of(keys) for keys, _ in calls],
            lambda node, chosen: node.run_batch(script, [calls[place] for place in chosen]),
            lambda place: self.run(script, *calls[place]),
        )

    async def _spread(
        self,
        slots: Sequence[int],
        together: Callable[[Client, list[int]], Awaitable[list[Any]]],
        alone: Callable[[int], Awaitable[Any]],
    ) -> list[Any]:
        """Sends to each node what is its own; what went wrong as a whole is sent again one by one, each on its way."""
        places: dict[Address, list[int]] = {}
        for place, slot in enumerate(slots):
            places.setdefault(await self._owner(slot), []).append(place)
        replies: list[Any] = [None] * len(slots)

        async def one(address: Address, chosen: list[int]) -> None:
            try:
                answers = await together(self._node(address), chosen)
            except StoreError as error:
                if isinstance(error, StoreDenied | StoreFull) or (
                    isinstance(error, StoreCorrupt) and _redirection(error) is None
                ):
                    raise
                answers = [await alone(place) for place in chosen]
            for place, answer in zip(chosen, answers, strict=True):
                replies[place] = answer

        await all_ended(*[one(address, chosen) for address, chosen in places.items()])
        return replies

    async def _routed(self, slot: int | None, send: Callable[[Client], Awaitable[Any]], *asked: Any) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SEEK_SECONDS
        address: Address | None = None
        asking = False
        while True:
            seen = self._maps
            try:
                address = address or await self._owner(slot)
                node = self._node(address)
                return await (_asking(node, *asked) if asking else send(node))
            except StoreError as error:
                told = _redirection(error)
                if told is None and (isinstance(error, StoreDenied | StoreFull | StoreCorrupt)):
                    raise
                if told is None:
                    self._suspect = address
                if loop.time() > deadline:
                    raise error if told is None else StoreUnavailable(f"the Cluster moves slots: {error}") from error
                asking = told is not None and told[0] == "ASK"
                if told is not None:
                    address = (told[1][0] or (address or ("", 0))[0], told[1][1])
                    if not asking:
                        self._moved(slot, address)
                    continue
            # Nobody answered, or answered that it can't now (a failover, a slot between two nodes).
            address = None
            await asyncio.sleep(random.uniform(0.5, 1.5) * _PAUSE_SECONDS)
            try:
                await self._read_map(seen)
            except StoreDenied:
                raise
            except StoreError:
                if loop.time() > deadline:
                    raise

    def _moved(self, slot: int | None, address: Address) -> None:
        """What a MOVED said goes in front of the map until it is read again."""
        if slot is not None:
            self._slots.insert(0, (slot, slot, address))
            if len(self._slots) > 256:
                self._slots = []

    # --- the rest --------------------------------------------------------------------------------------------

    @property
    def connects(self) -> int:
        return sum(node.connects for node in self._nodes.values())

    def listener(self) -> redis.client.PubSub:
        """A pub/sub connection to any node, another one each time: what is published on one is heard on all."""
        choice = self._known or self._seeds
        return self._node(choice[next(self._ears) % len(choice)]).listener()

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()


def open_client(url: str) -> Client:
    """A client for the store at this address; nothing is sent yet. Raises ValueError for an address that is none."""
    return ClusterClient(url) if is_cluster(url) else Client(url)


def _redirection(error: StoreError) -> tuple[str, Address] | None:
    """Where a node says the slot is, with MOVED or ASK."""
    cause = error.__cause__
    if not isinstance(cause, RedisError):
        return None
    kind = {"MovedError": "MOVED", "AskError": "ASK"}.get(type(cause).__name__)
    if kind is None:
        kind = str(cause).partition(" ")[0]
        if kind not in ("MOVED", "ASK"):
            return None
    place = _PLACE.search(str(cause))
    return (kind, (place[1].strip("[]"), int(place[2]))) if place else None


async def _asking(node: Client, *asked: Any) -> Any:
    """One call to a node that only begins to have the slot: the permission and the call on one connection."""
    if isinstance(asked[0], Script):
        script, keys, args, rest = asked
        bound = script.bind(keys, args, rest)
        try:
            return (await node.batch([["ASKING"], ["EVALSHA", script.sha, *bound]]))[1]
        except StoreCorrupt as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
            return (await node.batch([["ASKING"], ["EVAL", script.body, *bound]]))[1]
    return (await node.batch([["ASKING"], asked[0]]))[1]


def _keys_of(command: Sequence[Argument]) -> list[str]:
    name = str(command[0]).upper()
    if name in _KEYLESS:
        return []
    if name in ("EVAL", "EVALSHA"):
        return [str(key) for key in command[3 : 3 + int(command[2])]]
    return [str(command[2 if name == "MEMORY" else 1])]


def _slot_of(keys: Sequence[str]) -> int:
    return int(key_slot(keys[0].encode()))


def _ranges(told: Any) -> list[tuple[Any, ...]]:
    """(first, last, (host, port), ...) of CLUSTER SLOTS, which the library shows as a mapping."""
    found: list[tuple[Any, ...]] = []
    if isinstance(told, dict):
        for (first, last), facts in told.items():
            nodes = [facts["primary"], *facts["replicas"]]
            found.append((int(first), int(last), *((node[0], int(node[1])) for node in nodes)))
    else:
        for first, last, *nodes in told:
            found.append((int(first), int(last), *((node[0], int(node[1])) for node in nodes)))
    return found
