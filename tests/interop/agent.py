"""The agent that the clients talk to: it does what the text of a message says."""

from __future__ import annotations

import asyncio

from server.agents import (
    Agent,
    Outcome,
    Skill,
    Turn,
    auth_required,
    completed,
    failed,
    input_required,
    rejected,
    reply,
)

ENDS = {"failed": failed, "rejected": rejected, "auth_required": auth_required}


class Scripted(Agent):
    """
    ask                 waits for an answer; the next message of the context is it
    stream COUNT [PACE] one artifact in so many chunks, PACE seconds apart
    slow SECONDS        says that it works, then nothing for so long
    end STATE           ends so; `crash` ends with an exception
    mirror              gives all parts back
    anything else       says it again
    """

    name = "Interop"
    description = "Does what it is told."
    version = "7.8.9"
    skills = (Skill(id="obey", name="Obey", description="Does what it is told.", tags=("test",), examples=("ask",)),)

    async def run(self, turn: Turn) -> Outcome:
        if turn.session.pop("asked", False):
            return completed(f"you said: {turn.text}")
        match turn.text.split():
            case ["ask"]:
                turn.session["asked"] = True
                return input_required("Which colour?")
            case ["stream", count, *pace]:
                return await self._stream(turn, int(count), float(pace[0]) if pace else 0)
            case ["slow", seconds]:
                await turn.working("this takes a while")
                await asyncio.sleep(float(seconds))
                return completed(f"slept for {seconds} s")
            case ["end", "crash"]:
                raise RuntimeError("out of paper")
            case ["end", state]:
                return ENDS[state](f"this is {state}")
            case ["mirror"] if turn.message is not None:
                return completed(parts=turn.message.parts)
            case _:
                return completed(f"echo: {turn.text}")

    async def _stream(self, turn: Turn, count: int, pace: float) -> Outcome:
        await turn.working("streaming")
        for number in range(1, count + 1):
            await turn.artifact(f"{number} ", name="numbers", last_chunk=number == count)
            await asyncio.sleep(pace)
        return completed("counted")


class Direct(Scripted):
    """Answers with a message what needs no task."""

    name = "Interop-Direct"
    direct_replies = True

    async def run(self, turn: Turn) -> Outcome:
        return reply(f"direct: {turn.text}") if turn.text.startswith("hello") else await super().run(turn)
