"""What a dataclass keeps of itself when it is made in the lean way."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from stores.lean import lean


@lean
@dataclass(frozen=True, slots=True)
class Record:
    """A record."""

    name: str
    tags: tuple[str, ...] = ()
    note: str | None = field(default=None, compare=False)

    def shouted(self) -> Record:
        return Record(self.name.upper(), self.tags, self.note)


def test_it_is_frozen_once_it_is_made() -> None:
    record = Record("a")
    with pytest.raises(FrozenInstanceError):
        record.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del record.name
    with pytest.raises((AttributeError, TypeError)):
        record.other = 1  # type: ignore[attr-defined]
    assert record == Record("a")


def test_it_is_of_its_own_class_with_its_fields_and_defaults() -> None:
    record = Record("a", note="n")
    assert type(record) is Record
    assert isinstance(record, Record)
    assert (record.name, record.tags, record.note) == ("a", (), "n")
    assert record.shouted() == Record("A")
    match record:
        case Record(name, tags):
            assert (name, tags) == ("a", ())


def test_it_is_compared_hashed_and_shown_as_before() -> None:
    assert Record("a", note="n") == Record("a", note="m") != Record("b")
    assert hash(Record("a", note="n")) == hash(Record("a"))
    assert repr(Record("a")).endswith("Record(name='a', tags=(), note=None)")
    assert len({Record("a"), Record("a"), Record("b")}) == 2


def test_it_can_be_replaced_copied_and_pickled() -> None:
    record = Record("a", ("t",), "n")
    assert dataclasses.replace(record, name="b") == Record("b", ("t",))
    assert [it.name for it in dataclasses.fields(record)] == ["name", "tags", "note"]
    for twin in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert type(twin) is Record
        assert (twin, twin.note) == (record, "n")


def test_it_takes_what_it_says_it_takes() -> None:
    assert list(inspect.signature(Record).parameters) == ["name", "tags", "note"]
    with pytest.raises(TypeError):
        Record()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Record("a", (), None, 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Record("a", other=1)  # type: ignore[call-arg]


def test_what_could_not_be_made_so_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Listing:
        items: list[str] = field(default_factory=list)

    @dataclass(frozen=True, slots=True)
    class Checked:
        name: str

        def __post_init__(self) -> None:
            raise ValueError(self.name)

    @dataclass(frozen=True, slots=True)
    class Named(Record):
        pass

    for unfit in (Listing, Checked, Named):
        with pytest.raises(TypeError):
            lean(unfit)
