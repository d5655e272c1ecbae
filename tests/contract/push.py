"""Short words for the contract tests of callbacks."""

from __future__ import annotations

from stores import Store
from stores.keys import DeliveryRef
from stores.records import Admission, StoredConfig, Ticket
from tests.contract.builders import WORKER


def ref_of(of: Ticket | Admission) -> DeliveryRef:
    return DeliveryRef(of.context.caller, of.task_id)


async def put(store: Store, of: Ticket | Admission, name: str = "a1", doc: str = "doc") -> tuple[str, str]:
    return await store.push.put_push_config(WORKER, ref_of(of), name, doc)


async def config_of(store: Store, of: Ticket | Admission, name: str = "a1") -> StoredConfig:
    book = await store.push.read_push_configs(ref_of(of))
    assert book is not None
    return next(config for config in book.configs if config.name == name)


async def deliveries(store: Store, worker: str) -> set[str]:
    await store.settled(20)
    return set(await store.fleet.deliveries(worker))


async def undelivered(store: Store) -> set[str]:
    await store.settled(20)
    return set(await store.client.call("SMEMBERS", store.keys.undelivered))
