"""ask_reload: a wish that every worker of the fleet hears at its next beat."""

from __future__ import annotations

from stores import Store
from stores.records import Beat


async def test_every_worker_hears_of_a_reload_at_its_next_beat(store: Store) -> None:
    before = await store.fleet.beat_worker("one", "{}")
    await store.fleet.ask_reload("first")
    heard = [await store.fleet.beat_worker(worker, "{}") for worker in ("one", "two")]
    assert isinstance(before, Beat)
    assert before.generation == ""
    assert [beat.generation for beat in heard if isinstance(beat, Beat)] == ["first", "first"]


async def test_a_later_wish_replaces_an_earlier_one_and_a_repeat_changes_nothing(store: Store) -> None:
    for asked in ("first", "second", "second"):
        await store.fleet.ask_reload(asked)
    beat = await store.fleet.beat_worker("one", "{}")
    assert isinstance(beat, Beat)
    assert beat.generation == "second"
