"""The example dialogues through A2A, each turn on another worker process than the one before, state by state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.dialogue.assistant import Assistant, TurnInput, TurnResult
from server.dialogue.dialogues import Dialogue, compare, load_dialogues
from server.dialogue.sdk import Chunk
from tests.assistant.conftest import EXAMPLES, Talk
from tests.support.client import Item, Wire
from tests.support.fleet import Fleet

DIALOGUES = [
    pytest.param(name, dialogue, id=dialogue.name.split()[0])
    for name in ("bank", "clinic")
    for dialogue in load_dialogues(EXAMPLES / name)
]


@pytest.mark.usefixtures("every_key_lapses")
@pytest.mark.parametrize("wire", ["0.3", "1.0"])
@pytest.mark.parametrize(("name", "dialogue"), DIALOGUES)
async def test_a_dialogue_goes_as_written_on_workers_in_turn(
    request: pytest.FixtureRequest, http: httpx.AsyncClient, name: str, dialogue: Dialogue, wire: Wire
) -> None:
    repair = dialogue.turns[0].get("repair", True)
    fleet: Fleet = request.getfixturevalue(name if repair else "curt_clinic")
    talk = Talk(http, fleet, wire)
    beside = Beside(EXAMPLES / name, repair=repair)
    task: Item | None = None

    for number, turn in enumerate(dialogue.turns, 1):
        expected, chunks = await beside.turn(turn)
        if turn.get("cancel"):
            assert task is not None
            task = (await talk.next.cancel(task.id)).task
            pieces: list[str] = []
        else:
            task, pieces = await said(talk, turn, streamed=number % 2 == 0 or "chunks" in turn)
        told = f"turn {number} of {dialogue.name}"
        assert task.state == turn["s"], told
        assert task.text == "\n".join(expected.texts), told
        data = [part["data"] for part in task.parts if "data" in part]
        assert data == [plain(expected.data), *map(plain, expected.payloads)], told
        if "chunks" in turn:
            assert "".join(pieces) == "".join(chunk.text for chunk in chunks), told
            assert bool(pieces) == bool(turn["chunks"]), told
    await beside.assistant.aclose()


class Beside:
    """The same assistant in this process, which shows the response keys and events that no wire shows."""

    def __init__(self, folder: Path, *, repair: bool) -> None:
        self.assistant = Assistant.load(folder).with_repair(repair)
        self._state: str | None = None

    async def turn(self, turn: dict[str, Any]) -> tuple[TurnResult, list[Chunk]]:
        chunks: list[Chunk] = []

        async def on_chunk(chunk: Chunk) -> None:
            chunks.append(chunk)

        if turn.get("cancel"):
            result = self.assistant.cancel(self._state)
        else:
            seed = turn.get("seed")
            message = TurnInput(str(turn.get("u") or ""), ({"slots": seed},) if seed is not None else ())
            result = await self.assistant.turn(self._state, message, on_chunk)
        self._state = result.state_json
        assert compare(turn, result, chunks) == []
        return result, chunks


async def said(talk: Talk, turn: dict[str, Any], *, streamed: bool) -> tuple[Item, list[str]]:
    """Sends a turn, with `message/send` or as a stream; its task at the end, and the pieces that were streamed."""
    seed = turn.get("seed")
    parts = talk.parts(turn.get("u"), *([{"slots": seed}] if seed is not None else []))
    speaker = talk.next
    if not streamed:
        return (await speaker.send(context=talk.context, parts=parts)).task, []
    async with speaker.stream(context=talk.context, parts=parts) as reader:
        items = await reader.rest()
    pieces = [item.text for item in items if item.kind == "artifact"]
    assert items[0].kind == "task"
    assert (await talk.next.get(items[0].id)).task.state == items[-1].state
    return items[-1], [piece for piece in pieces if piece]


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
