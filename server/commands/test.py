"""`nonstick test`: run the dialogues of an assistant's folder, and report like a test runner."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

from server.commands.folder import Broken, inspect
from server.commands.show import complain
from server.config import ConfigProblem, ConfigRefused
from server.config.problems import problem
from server.dialogue.assistant import Assistant
from server.dialogue.dialogues import FILE, Dialogue, DialogueOutcome, load_dialogues, run_dialogue
from server.dialogue.problems import AssistantInvalid


def test(folder: Path, only: str | None) -> int:
    """0 when every dialogue went as written, 1 when one did not, 2 when nothing could be run."""
    try:
        if not folder.is_dir():
            raise ConfigRefused([_no_folder(folder)])
        seen = inspect(folder)
        dialogues = _chosen(load_dialogues(folder), folder, only)
    except Broken as broken:
        return complain(ConfigRefused(broken.problems))
    except AssistantInvalid as invalid:
        found = (ConfigProblem(p.code, f"{folder / p.file}:{p.line}", p.message, p.fix) for p in invalid.problems)
        return complain(ConfigRefused(list(found)))
    except ConfigRefused as refused:
        return complain(refused)
    for warning in seen.warnings:
        print(f"warning: {warning}\n", file=sys.stderr)
    # What a server would log belongs to no dialogue in particular.
    logging.getLogger().addHandler(logging.NullHandler())
    began = time.monotonic()
    outcomes = asyncio.run(_run(seen.assistant, dialogues))
    return _report(outcomes, time.monotonic() - began)


def _chosen(dialogues: tuple[Dialogue, ...], folder: Path, only: str | None) -> tuple[Dialogue, ...]:
    if not dialogues:
        raise ConfigRefused(
            [
                problem(
                    "no_dialogues",
                    str(folder / FILE),
                    "There are no dialogues to run.",
                    'Write some, for example:  "a greeting": [{u: hello, s: input_required}].',
                )
            ]
        )
    chosen = tuple(each for each in dialogues if only is None or only.casefold() in each.name.casefold())
    if not chosen:
        names = "; ".join(each.name for each in dialogues)
        raise ConfigRefused(
            [problem("no_dialogues", "--dialogue", f"No dialogue's name contains {only!r}.", f"There are: {names}.")]
        )
    return chosen


async def _run(assistant: Assistant, dialogues: tuple[Dialogue, ...]) -> list[DialogueOutcome]:
    outcomes: list[DialogueOutcome] = []
    try:
        for dialogue in dialogues:
            outcome = await _run_one(assistant, dialogue)
            outcomes.append(outcome)
            print(f"{'PASSED' if outcome.passed else 'FAILED'}  {dialogue.name}", flush=True)
    finally:
        await assistant.aclose()
    return outcomes


async def _run_one(assistant: Assistant, dialogue: Dialogue) -> DialogueOutcome:
    try:
        return await run_dialogue(assistant, dialogue)
    except Exception as error:  # an expectation of a form that can't be compared; the others are still worth running
        said = f"it can't be run: {type(error).__name__}: {error}"
        return DialogueOutcome(dialogue.name, len(dialogue.turns), (said,))


def _report(outcomes: list[DialogueOutcome], seconds: float) -> int:
    broken = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in broken:
        print(f"\n--- {outcome.name}")
        for failure in outcome.failures:
            print(f"    {failure}")
    passed = len(outcomes) - len(broken)
    print(f"\n{passed} passed, {len(broken)} failed in {seconds:.2f} s")
    return 1 if broken else 0


def _no_folder(folder: Path) -> ConfigProblem:
    hint = "Give the folder that holds the assistant's files."
    return problem("assistant_not_found", "--assistant", f"{folder} is not a folder.", hint)
