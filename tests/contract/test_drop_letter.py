"""drop_letter: a dead letter is forgotten for good."""

from __future__ import annotations

from dataclasses import replace

from stores import Store
from stores.admin import AdminStore
from stores.keys import DeliveryRef
from tests.contract.builders import CALLER, WORKER, running, with_limits


async def test_a_letter_is_dropped_once_and_the_others_stay(store: Store) -> None:
    pushing = with_limits(store, push_configs=4)
    ticket = await running(pushing)
    ref = DeliveryRef(CALLER, ticket.task_id)
    _, fence = await pushing.push.put_push_config(WORKER, ref, "one", "{}")
    book = await pushing.push.read_push_configs(ref)
    assert book is not None
    [config] = book.configs
    for event in ("7-1", "7-2"):
        await pushing.push.bury_push(WORKER, ref, fence, config, event, letter=f'"{event}"', always=True)
        config = replace(config, cursor=event)
    admin = AdminStore(store.client, store.keys, store.limits)
    first = next(it for it in await pushing.push.list_dead_letters() if it.event == "7-1")

    assert [await admin.drop_letter(first), await admin.drop_letter(first)] == [True, False]

    assert [it.event for it in await pushing.push.list_dead_letters()] == ["7-2"]
    assert await admin.count_letters() == 1
    task = await admin.task(CALLER, ticket.task_id)
    assert task is not None
    assert (task.callbacks, task.letters) == (1, 1)
