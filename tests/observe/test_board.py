"""One page for all workers of a replica, whatever becomes of the folder they share."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.observe.board import Board
from server.observe.registry import Registry


@pytest.fixture
async def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Board]]:
    """Two workers of one replica; the first has counted 1, the second 2."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    replica, made = uuid.uuid4().hex, []
    for count in (1, 2):
        registry = Registry()
        registry.counter("things_total", "Things.").add(by=count)
        made.append(Board(registry, replica))
        made[-1].start()
    yield made
    for board in made:
        await board.stop()
    assert folders(tmp_path) == [], "the last one takes the folder along"


def folders(path: Path) -> list[Path]:
    return list(path.iterdir())


def counted(board: Board) -> list[int]:
    return sorted(int(line.split()[1]) for line in board.page({}).splitlines() if line.startswith("things_total"))


async def test_each_shows_what_all_have_counted(boards: list[Board]) -> None:
    first, second = boards
    counted(first)
    assert counted(second) == [1, 2]
    assert counted(first) == [1, 2]


async def test_a_folder_that_went_with_another_worker_is_made_again(boards: list[Board], tmp_path: Path) -> None:
    """A worker that ends removes the folder if it is empty, which it is while another one is just starting."""
    first, second = boards
    (folder,) = folders(tmp_path)
    shutil.rmtree(folder)
    counted(first)
    assert counted(second) == [1, 2]
    assert counted(first) == [1, 2]
