"""What an assistant's config.yml and endpoints.yml say about generators and actions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.dialogue.actions.inprocess import InProcessActions
from server.dialogue.actions.modules import find_module, load_actions
from server.dialogue.actions.runner import ActionRunner, NoActions
from server.dialogue.actions.server import ActionEndpoint, ActionServer
from server.dialogue.generate.keyword import KeywordGenerator, KeywordSettings
from server.dialogue.generate.llm import LLMGenerator
from server.dialogue.generate.models import LLMSettings, read_models
from server.dialogue.generate.situation import Generator
from server.dialogue.loader import Project
from server.dialogue.problems import Reporter
from server.dialogue.state import HISTORY_LINES, SHORT_HISTORY_LINES
from server.dialogue.validation import DEFAULT_ACTIONS
from server.dialogue.yamlfiles import interpolate

MAX_CHARACTERS = 420
_LLM_NAMES = frozenset({"LLMCommandGenerator", "CompactLLMCommandGenerator", "SearchReadyLLMCommandGenerator"})
_KEYWORD_KEYS = frozenset({"start_threshold", "weak_threshold", "clarify_margin", "keywords", "synonyms", "lexicon"})


@dataclass(frozen=True, slots=True)
class AssistantSettings:
    """What the server decides; None leaves it to the assistant's own files, or to the default.

    `model_name` is the name of the deployed model (its file name without .tar.gz), used as the version of the card.
    `action_timeout_seconds` bounds one action in this process; 0 means no bound.
    """

    include_conversation_repair: bool | None = None
    slot_allowlist: tuple[str, ...] | None = None
    model_name: str | None = None
    action_timeout_seconds: float = 60.0
    clarify_on_multiple_starts: bool = False
    random_responses: bool = False
    rng: random.Random | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """The parts that do I/O, and the switches the files set."""

    generator: Generator
    actions: ActionRunner
    repair: bool
    allowlist: frozenset[str] | None
    max_characters: int
    history_lines: int


def wire(project: Project, settings: AssistantSettings, report: Reporter) -> Wiring:
    """Builds generator and action runner; mistakes go to the report."""
    block = project.endpoints.get("a2a_server")
    block = block if isinstance(block, dict) else {}
    repair = settings.include_conversation_repair
    if repair is None:
        repair = block.get("include_conversation_repair", True) is not False
    listed = settings.slot_allowlist if settings.slot_allowlist is not None else block.get("slot_allowlist")
    allowlist = _allowlist(listed, project, report.at(file="endpoints.yml"))
    generator, max_characters = _generator(project, report.at(file="config.yml"))
    lines = HISTORY_LINES if isinstance(generator, LLMGenerator) else SHORT_HISTORY_LINES
    return Wiring(generator, _actions(project, settings, report), repair, allowlist, max_characters, lines)


def _allowlist(listed: Any, project: Project, report: Reporter) -> frozenset[str] | None:
    if listed is None:
        return None
    if not isinstance(listed, (list, tuple)):
        report.error("'slot_allowlist' must be a list of slot names.", "Write 'slot_allowlist: [first, second]'.")
        return frozenset()
    for name in listed:
        if name not in project.domain.slots:
            report.error(f"'slot_allowlist' names the slot '{name}', which does not exist.", "Correct its spelling.")
    return frozenset(str(name) for name in listed)


def _generator(project: Project, report: Reporter) -> tuple[Generator, int]:
    keyword, llm = KeywordSettings(), None
    max_characters = MAX_CHARACTERS
    pipeline = project.config.get("pipeline")
    for entry in pipeline if isinstance(pipeline, list) else []:
        spec = entry if isinstance(entry, dict) else {"name": entry}
        name = str(spec.get("name", "")).rpartition(".")[2]
        limit = spec.get("user_input")
        if isinstance(limit, dict) and isinstance(limit.get("max_characters"), int):
            max_characters = limit["max_characters"]
        if name == "KeywordCommandGenerator":
            keyword = _keyword(spec, project, report)
        elif name in _LLM_NAMES:
            llm = LLMSettings.read(spec, report)
        else:
            report.warning(f"The pipeline component '{name}' is not used.", "Remove it, or ignore this.")
    fallback = KeywordGenerator(project, keyword)
    if llm is None:
        return fallback, max_characters
    models = read_models(project.endpoints.get("model_groups"), llm.model_group, report.at(file="endpoints.yml"))
    return LLMGenerator(models, llm, fallback), max_characters


def _keyword(spec: dict[str, Any], project: Project, report: Reporter) -> KeywordSettings:
    given = {key: value for key, value in spec.items() if key in _KEYWORD_KEYS and value is not None}
    for key in sorted(spec.keys() - _KEYWORD_KEYS - {"name", "user_input"}):
        report.warning(f"KeywordCommandGenerator has no setting '{key}'.", f"Use {', '.join(sorted(_KEYWORD_KEYS))}.")
    for key in ("start_threshold", "weak_threshold", "clarify_margin"):
        value = given.get(key, 1.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            report.error(f"'{key}' must be a number of 0 or more.", "Write a plain number.")
            del given[key]
    for key in ("keywords", "synonyms", "lexicon"):
        if not isinstance(given.get(key, {}), dict):
            report.error(f"'{key}' must be a mapping.", "Write 'name: [...]' lines below it.")
            del given[key]
    for name in given.get("keywords", {}):
        if name not in project.flows:
            report.error(f"'keywords' names the flow '{name}', which does not exist.", "Correct its spelling.")
    for name in given.get("synonyms", {}):
        if name not in project.domain.slots:
            report.error(f"'synonyms' names the slot '{name}', which does not exist.", "Correct its spelling.")
    return KeywordSettings(**given)


def _actions(project: Project, settings: AssistantSettings, report: Reporter) -> ActionRunner:
    """`actions_module` wins over `url`, and both over an actions.py in the folder."""
    domain = project.domain
    here = report.at(file="endpoints.yml")
    endpoint = project.endpoints.get("action_endpoint")
    endpoint = interpolate(endpoint, here) if isinstance(endpoint, dict) else {}
    needed = domain.actions - DEFAULT_ACTIONS
    url = endpoint.get("url")
    if url and not endpoint.get("actions_module"):
        return _server(str(url), endpoint, project, here)
    module = find_module(project.root, endpoint.get("actions_module"))
    if module is None:
        if needed:
            report.at(file="domain.yml").error(
                f"Nothing runs the actions {', '.join(sorted(needed))}.",
                "Add actions.py to the assistant's folder, or an 'action_endpoint' to endpoints.yml.",
            )
        return NoActions()
    actions = load_actions(project.root, module, report)
    for name in sorted(needed - actions.keys()):
        report.at(file="domain.yml").error(
            f"The action {name} is listed, but no class in '{module}' has that name.",
            f"Add a class whose name() returns '{name}', or remove it from 'actions'.",
        )
    timeout = settings.action_timeout_seconds or None
    return InProcessActions(actions, domain.raw, timeout)


def _server(url: str, spec: dict[str, Any], project: Project, report: Reporter) -> ActionRunner:
    if not url.startswith(("http://", "https://")):
        report.error(f"The action server's url '{url}' is not supported.", "Use http:// or https://.")
    cafile = spec.get("cafile")
    if cafile and not Path(str(cafile)).is_file():
        report.error(f"The file of 'cafile' ({cafile}) does not exist.", "Give the path of a PEM file.")
    endpoint = ActionEndpoint(
        url=url,
        cafile=str(cafile) if cafile else None,
        selective_domain=spec.get("enable_selective_domain") is True,
        connect_timeout=_seconds(spec, "connect_timeout", 3.0, report),
        read_timeout=_seconds(spec, "read_timeout", 30.0, report),
    )
    return ActionServer(endpoint, project.domain.raw, project.domain.sends_domain)


def _seconds(spec: dict[str, Any], key: str, default: float, report: Reporter) -> float:
    value = spec.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        report.error(f"'{key}' must be a number of seconds above 0.", "Write a plain number.")
        return default
    return float(value)
