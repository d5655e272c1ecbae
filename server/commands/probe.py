"""What an agent says of itself, asked in a process of its own so that the master never imports the agent's code."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from server.agents.load import AgentNotFound
from server.config import ConfigProblem, ConfigRefused, Flags, Plan, Settings, make_plan
from server.config.problems import problem

# Importing an agent may load a model; one that takes longer than this hangs.
PROBE_SECONDS = 120.0
# What is said to an agent that gives no example of its own.
GREETING = "hello"


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """`opening` is something a user could begin with; `rows` and `summary` tell what an assistant is made of."""

    name: str
    version: str
    skills: tuple[str, ...]
    namespace: str = ""
    opening: str = GREETING
    rows: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    summary: str = ""


def prepare(flags: Flags, environ: Mapping[str, str]) -> tuple[Plan, AgentFacts]:
    """The plan and the agent it names; raises `ConfigRefused` with the problems of both."""
    try:
        plan = make_plan(flags, environ)
    except ConfigRefused as refused:
        raise ConfigRefused([*refused.problems, *_problems_of_assistant(flags)]) from None
    facts = probe_agent(plan.settings)
    # Fixed here for all workers, whatever becomes of the assistant's files while they run.
    return plan.in_namespace(plan.settings.namespace or facts.namespace), facts


def probe_agent(settings: Settings) -> AgentFacts:
    """Load the agent in a child and return what it says; raises `ConfigRefused` when it can't be loaded."""
    sys.stdout.flush()
    sys.stderr.flush()
    news, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(news)
        _tell(tell, settings)
    os.close(tell)
    try:
        said = _hear(news)
    finally:
        os.close(news)
        os.kill(child, signal.SIGKILL)  # it has said all it had to say
        os.waitpid(child, 0)
    if "problems" in said:
        raise ConfigRefused([ConfigProblem(*each) for each in said["problems"]])
    if "problem" in said:
        message, hint = str(said["problem"]), str(said["hint"])
        flag = "--agent" if settings.agent else "--assistant"
        raise ConfigRefused([problem("agent_not_loaded", flag, message, hint)])
    facts = AgentFacts(**said)
    rows = tuple((str(label), str(text)) for label, text in facts.rows)
    return replace(facts, skills=tuple(facts.skills), warnings=tuple(facts.warnings), rows=rows)


def _problems_of_assistant(flags: Flags) -> tuple[ConfigProblem, ...]:
    """Bad settings need not hide what is wrong with the assistant: its author sees everything at once."""
    if flags.assistant is None or not flags.assistant.is_dir():
        return ()
    try:
        probe_agent(Settings(assistant=flags.assistant))
    except ConfigRefused as refused:
        return refused.problems
    return ()


def _tell(pipe: int, settings: Settings) -> None:
    """The child: never returns into the code of its parent."""
    try:
        with os.fdopen(pipe, "w") as out:
            json.dump(_facts(settings), out)
    finally:
        os._exit(0)


def _facts(settings: Settings) -> dict[str, Any]:
    source = settings.agent or str(settings.assistant)
    try:
        return _facts_of_assistant(settings, settings.assistant) if settings.assistant else _facts_of_agent(settings)
    except AgentNotFound as error:
        return {"problem": f"{error}.", "hint": "Correct --agent, or start where its module can be imported."}
    except BaseException as error:
        # The agent's own mistake: its author needs the place, and nobody needs the way through our code.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        said = "".join(traceback.format_exception_only(error)).strip()
        return {"problem": f"{source}: {said}", "hint": f"Correct {frame.filename}:{frame.lineno}."}


def _facts_of_agent(settings: Settings) -> dict[str, Any]:
    # Here and not above: the application's imports are slow, and a master does without them.
    from server.app import load, namespace

    agent = load(settings)
    opening = next((example for skill in agent.skills for example in skill.examples), GREETING)
    skills = tuple(skill.id for skill in agent.skills)
    return asdict(
        AgentFacts(agent.name or type(agent).__name__, agent.version, skills, namespace(settings, agent), opening)
    )


def _facts_of_assistant(settings: Settings, folder: Path) -> dict[str, Any]:
    from server.app import assistant_settings, load, namespace
    from server.commands.folder import Broken, inspect

    try:
        seen = inspect(folder, assistant_settings(settings))
    except Broken as broken:
        return {"problems": [[each.code, each.where, each.message, each.hint] for each in broken.problems]}
    return asdict(
        AgentFacts(
            seen.assistant.name,
            seen.assistant.version,
            seen.assistant.flow_ids,
            namespace(settings, load(settings)),
            next((example for skill in seen.assistant.skills for example in skill.examples), GREETING),
            seen.rows,
            seen.warnings,
            seen.summary,
        )
    )


def _hear(pipe: int) -> dict[str, Any]:
    text = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], PROBE_SECONDS)
        if not ready:
            return {"problem": f"Loading it took longer than {PROBE_SECONDS:g} s.", "hint": "See where it waits."}
        chunk = os.read(pipe, 65536)
        if not chunk:
            break
        text += chunk
    if not text:
        return {"problem": "Its process died while loading it.", "hint": "Import its module in Python to see why."}
    said: dict[str, Any] = json.loads(text)
    return said
