"""An assistant's folder as the commands see it: loaded, described in words, or refused with every problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from server.config import ConfigProblem
from server.dialogue.actions.inprocess import InProcessActions
from server.dialogue.actions.runner import NoActions
from server.dialogue.assistant import Assistant
from server.dialogue.generate.llm import LLMGenerator
from server.dialogue.loader import load_project
from server.dialogue.problems import Problem, Reporter, Severity
from server.dialogue.settings import AssistantSettings, Wiring, wire
from server.dialogue.validation import DEFAULT_ACTIONS

SHOWN_NAMES = 12


class Broken(Exception):
    """The assistant can't be loaded."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


@dataclass(frozen=True, slots=True)
class Seen:
    """A loaded assistant, and what there is to say about it."""

    assistant: Assistant
    rows: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    summary: str


def inspect(folder: Path, settings: AssistantSettings | None = None) -> Seen:
    """Loads a folder exactly as a worker would; raises Broken with all errors."""
    settings = settings or AssistantSettings()
    report = Reporter()
    project = load_project(folder, report)
    wiring = None if project is None else wire(project, settings, report)
    if report.failed or project is None or wiring is None:
        found = (found for found in report.found if found.severity is Severity.ERROR)
        raise Broken(tuple(_problem(each, folder) for each in found))
    assistant = Assistant(project, wiring, settings, tuple(report.found))
    slots = [slot for slot in project.domain.slots if slot in project.domain.exported]
    actions = sorted(project.domain.actions - DEFAULT_ACTIONS)
    generator, where = _generator(wiring), _actions(wiring)
    rows = (
        ("flows", _listed(assistant.flow_ids)),
        ("slots", _listed(slots)),
        ("actions", f"{_listed(actions)} ({where})" if actions else "none"),
        ("generator", generator),
    )
    counted = (
        _count(len(assistant.flow_ids), "flow"),
        _count(len(slots), "slot"),
        _count(len(actions), "action"),
    )
    warnings = tuple(str(_problem(each, folder)) for each in report.found)
    return Seen(assistant, rows, warnings, f"{', '.join(counted)}, {generator}")


def _problem(found: Problem, folder: Path) -> ConfigProblem:
    where = str(folder / found.file) if found.file and (folder / found.file).exists() else found.file or str(folder)
    if found.line:
        where += f":{found.line}"
    if found.flow:
        where += f", flow '{found.flow}'" + (f", step '{found.step}'" if found.step else "")
    return ConfigProblem(found.code, where, found.message, found.fix)


def _generator(wiring: Wiring) -> str:
    return "LLM generator" if isinstance(wiring.generator, LLMGenerator) else "keyword generator"


def _actions(wiring: Wiring) -> str:
    match wiring.actions:
        case NoActions():
            return "none"
        case InProcessActions():
            return "in this process"
        case _:
            return "on the action server"


def _listed(names: list[str] | tuple[str, ...]) -> str:
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(names[:SHOWN_NAMES]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
