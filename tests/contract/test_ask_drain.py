"""ask_drain: an operator's wish that a worker finds with its next beat."""

from __future__ import annotations

from stores import Store
from stores.admin import AdminStore
from stores.records import Beat


def admin(store: Store) -> AdminStore:
    return AdminStore(store.client, store.keys, store.limits)


async def test_the_worker_that_was_asked_hears_it_at_every_beat_and_no_other_does(store: Store) -> None:
    for worker in ("one", "two"):
        await store.fleet.beat_worker(worker, "{}")

    assert await admin(store).ask_drain("one")

    beats = [await store.fleet.beat_worker(worker, "{}") for worker in ("one", "one", "two")]
    assert [beat.wish for beat in beats if isinstance(beat, Beat)] == ["drain", "drain", ""]


async def test_nobody_is_asked_who_does_not_beat(store: Store) -> None:
    assert not await admin(store).ask_drain("nobody")

    beat = await store.fleet.beat_worker("dead", "{}")
    assert isinstance(beat, Beat)
    await store.fleet.reap_worker("dead", beat.counters["dead"])
    assert not await admin(store).ask_drain("dead")
