"""The agent `make run` starts: it says everything again, and streams when it is asked to."""

import asyncio

from server.agents import Agent, Outcome, Skill, Turn, completed, input_required


class Echo(Agent):
    """Says it again."""

    skills = (
        Skill(
            id="echo",
            name="Echo",
            description="Says it again, and counts how often this conversation was heard.",
            tags=("demo",),
            examples=("hello", "stream the quick brown fox", "ask me something"),
        ),
    )

    async def run(self, turn: Turn) -> Outcome:
        turn.session["count"] = turn.session.get("count", 0) + 1
        if turn.session.pop("asked", False):
            return completed(f"you answered: {turn.text}", data={"count": turn.session["count"]})
        if turn.text.startswith("ask"):
            turn.session["asked"] = True
            return input_required("What should I echo?")
        if turn.text.startswith("stream"):
            await turn.working("streaming")
            words = turn.text.split()[1:] or ["nothing", "to", "stream"]
            for number, word in enumerate(words, 1):
                await turn.artifact(word + " ", name="echo", last_chunk=number == len(words))
                await asyncio.sleep(0.2)
        return completed(f"echo: {turn.text}", data={"count": turn.session["count"]})
