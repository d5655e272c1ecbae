"""Runs the dialogues.yml of an assistant: each turn says what must come out of it.

    "a name":
      - {u: "send money", s: input_required, f: transfer_money, b: [utter_ask_recipient]}

u: what the user says - seed: slots sent along - cancel: tasks/cancel instead of a message - s: task state -
f: active flow - b: responses in order - p: persisted slots - slots: values among the slots - ev: events that occur -
chunks: true when something is streamed, or how many pieces - repair: include_conversation_repair from here on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.dialogue.assistant import Assistant, TurnInput, TurnResult
from server.dialogue.problems import AssistantInvalid, Reporter
from server.dialogue.sdk import Chunk
from server.dialogue.yamlfiles import read_yaml

FILE = "dialogues.yml"
_KEYS = frozenset({"u", "seed", "cancel", "s", "f", "b", "p", "slots", "ev", "chunks", "repair", "skill"})


@dataclass(frozen=True, slots=True)
class Dialogue:
    name: str
    turns: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DialogueOutcome:
    """`failures` holds one readable line per thing that was not as expected."""

    name: str
    turns: int
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.failures


def load_dialogues(folder: Path | str) -> tuple[Dialogue, ...]:
    """The dialogues of an assistant's folder; raises AssistantInvalid when the file can't be read."""
    root = Path(folder)
    report = Reporter()
    if not (root / FILE).is_file():
        return ()
    content = read_yaml(root / FILE, root, report)
    here = report.at(file=FILE)
    dialogues: list[Dialogue] = []
    for name, turns in (content or {}).items():
        if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
            here.error(f"The dialogue '{name}' is not a list of turns.", "Write '- {u: ..., s: ...}' lines below it.")
            continue
        for number, turn in enumerate(turns, 1):
            for key in sorted(turn.keys() - _KEYS):
                here.at(line=turn.line).error(
                    f"Turn {number} of '{name}' has the unknown key '{key}'.", f"Use {', '.join(sorted(_KEYS))}."
                )
        dialogues.append(Dialogue(name, tuple(turns)))
    if report.failed:
        raise AssistantInvalid(tuple(report.found))
    return tuple(dialogues)


async def run_dialogues(
    assistant: Assistant, dialogues: tuple[Dialogue, ...], only: str | None = None
) -> tuple[DialogueOutcome, ...]:
    """Runs them one after the other; `only` keeps those whose name contains it."""
    chosen = [dialogue for dialogue in dialogues if only is None or only in dialogue.name]
    return tuple([await run_dialogue(assistant, dialogue) for dialogue in chosen])


async def run_dialogue(assistant: Assistant, dialogue: Dialogue) -> DialogueOutcome:
    """Stops at the first turn that goes wrong: what follows would only confuse."""
    state: str | None = None
    failures: list[str] = []
    for number, turn in enumerate(dialogue.turns, 1):
        if "repair" in turn:
            assistant = assistant.with_repair(turn["repair"] is not False)
        chunks: list[Chunk] = []
        if turn.get("cancel"):
            result = assistant.cancel(state)
        else:
            result = await _send(assistant, state, turn, dialogue.name, chunks)
        state = result.state_json
        failures = [f"turn {number} ({_said(turn)}): {line}" for line in compare(turn, result, chunks)]
        if failures:
            break
    return DialogueOutcome(dialogue.name, len(dialogue.turns), tuple(failures))


def compare(turn: dict[str, Any], result: TurnResult, chunks: list[Chunk]) -> list[str]:
    """What differs between a turn's expectations and its result."""
    keys = [key for key in result.keys if key is not None]
    occurred = {str(event.get("event")) for event in result.events}
    slots = result.data.get("slots", {})
    failures: list[str] = []

    def expect(what: str, wanted: Any, got: Any) -> None:
        if wanted != got:
            failures.append(f"{what} should be {wanted!r} but is {got!r}")

    if "s" in turn:
        expect("the state", turn["s"], result.task_state.value)
    if "f" in turn:
        expect("the active flow", turn["f"], result.data.get("active_flow"))
    if "b" in turn:
        expect("the responses", list(turn["b"] or ()), keys)
    if "p" in turn:
        expect("persisted_slots", dict(turn["p"] or {}), dict(result.data.get("persisted_slots", {})))
    for name, value in (turn.get("slots") or {}).items():
        expect(f"the slot '{name}'", value, slots.get(name))
    for event in turn.get("ev") or ():
        if event not in occurred:
            failures.append(f"the event '{event}' should occur; there were {', '.join(sorted(occurred)) or 'none'}")
    if "chunks" in turn:
        pieces = sum(1 for chunk in chunks if not chunk.last)
        wanted = turn["chunks"]
        expect("streamed pieces", wanted, pieces if not isinstance(wanted, bool) else pieces > 0)
    return failures


async def _send(
    assistant: Assistant, state: str | None, turn: dict[str, Any], name: str, chunks: list[Chunk]
) -> TurnResult:
    async def on_chunk(chunk: Chunk) -> None:
        chunks.append(chunk)

    seed = turn.get("seed")
    message = TurnInput(
        text=str(turn.get("u") or ""),
        data=({"slots": seed},) if seed is not None else (),
        skill=turn.get("skill"),
        sender_id=name,
    )
    return await assistant.turn(state, message, on_chunk)


def _said(turn: dict[str, Any]) -> str:
    if turn.get("cancel"):
        return "tasks/cancel"
    return f"'{turn['u']}'" if turn.get("u") else f"slots {turn.get('seed')}"
