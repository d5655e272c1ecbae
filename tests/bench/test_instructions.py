"""The run whose instructions are counted: real turns, from the bytes of requests to those of answers."""

from __future__ import annotations

import pytest

from bench import instructions
from bench.load.talk import TALKS, Wrong
from server.agents import completed


@pytest.mark.parametrize("assistant", ["", "examples/bank"])
async def test_the_turns_that_are_counted_are_right_ones(assistant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []
    talk = TALKS["bank" if assistant else "echo"]
    check = talk.check  # type: ignore[attr-defined]

    def watch(self: object, status: int, body: bytes) -> None:
        check(self, status, body)
        checked.append(body)

    monkeypatch.setattr(talk, "check", watch)
    await instructions.run(4, assistant)
    assert len(checked) == 4
    assert b"TASK_STATE_COMPLETED" in checked[-1]


async def test_a_wrong_answer_voids_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.agents.completed", lambda said: completed(f"not {said}"))
    with pytest.raises(Wrong):
        await instructions.run(1, "")
