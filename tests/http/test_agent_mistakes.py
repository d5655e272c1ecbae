"""What an agent can get wrong ends its own turn, truthfully and at once, and nothing else."""

from __future__ import annotations

import math
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from server.agents import Outcome, Turn, completed
from tests.http.conftest import Dial, Serve, Served
from tests.support.agents import Puppet

WRONG: dict[str, Any] = {"number": math.nan, "object": object(), "surrogate": "half \ud800 a character"}


class Careless(Puppet):
    """Says what no JSON can carry, in its outcome, in an event or in its session."""

    async def do_answer(self, turn: Turn, how: list[str]) -> Outcome:
        return completed("fine so far", data={"value": WRONG[how[0]]})

    async def do_show(self, turn: Turn, how: list[str]) -> Outcome:
        await turn.artifact(data={"value": WRONG[how[0]]})
        return completed()

    async def do_keep(self, turn: Turn, how: list[str]) -> Outcome:
        turn.session["value"] = WRONG[how[0]]
        return completed()

    async def do_nothing(self, turn: Turn, how: list[str]) -> Outcome:
        return cast(Outcome, None)


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Served:
    return serve(Careless(tmp_path))


@pytest.mark.parametrize("what", sorted(WRONG))
@pytest.mark.parametrize(
    ("where", "error"), [("answer", "invalid_agent_response"), ("show", None), ("keep", "session_invalid")]
)
async def test_what_is_not_plain_json_fails_the_turn_and_the_context_goes_on(
    dial: Dial, where: str, error: str | None, what: str
) -> None:
    context = uuid.uuid4().hex
    task = (await dial().send(f"{where} {what}", context=context)).task
    data = next(part["data"] for part in task.raw["status"]["message"]["parts"] if "data" in part)
    assert task.state == "failed"
    assert error is None or data["error_type"] == error
    assert (await dial().send("echo", context=context)).task.state == "completed"


async def test_an_agent_that_returns_no_outcome_is_told_so(dial: Dial) -> None:
    task = (await dial().send("nothing")).task
    data = next(part["data"] for part in task.raw["status"]["message"]["parts"] if "data" in part)
    assert (task.state, data["error_type"]) == ("failed", "TypeError")
    assert "not an Outcome" in data["error_info"]
