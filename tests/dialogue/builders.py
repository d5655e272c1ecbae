"""Small assistants written on the spot, and a way to talk to them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.dialogue.assistant import Assistant, TurnInput, TurnResult
from server.dialogue.sdk import Chunk
from server.dialogue.settings import AssistantSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
SESSION = "session_config: {start_session_after_expiry: false}\n"


def write(folder: Path, **files: str) -> Path:
    """Writes `domain`, `flows`, `nlu`, `config`, `endpoints` (YAML) and `actions` (Python) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        suffix = "py" if name == "actions" else "yml"
        text = textwrap.dedent(content)
        if name == "domain" and "session_config" not in text:
            text = SESSION + text
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def build(folder: Path, settings: AssistantSettings | None = None, /, **files: str) -> Assistant:
    return Assistant.load(write(folder, **files), settings)


@dataclass
class Talk:
    """One conversation; every turn goes through the stored form, as it would between workers."""

    assistant: Assistant
    state: str | None = None
    chunks: list[Chunk] = field(default_factory=list)

    async def say(self, text: str = "", seed: dict[str, Any] | None = None, **more: Any) -> TurnResult:
        async def on_chunk(chunk: Chunk) -> None:
            self.chunks.append(chunk)

        data = ({"slots": seed},) if seed is not None else ()
        result = await self.assistant.turn(self.state, TurnInput(text=text, data=data, **more), on_chunk)
        self.state = result.state_json
        return result

    async def says(self, *texts: str) -> TurnResult:
        """Several messages; the last one's result."""
        for text in texts:
            result = await self.say(text)
        return result


def events(result: TurnResult, name: str) -> list[str]:
    """The flow ids (or names) of a turn's events of one kind."""
    return [str(e.get("flow_id") or e.get("name") or "") for e in result.events if e["event"] == name]


def spoken(result: TurnResult) -> list[str | None]:
    return list(result.keys)
