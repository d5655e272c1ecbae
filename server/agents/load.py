"""Finds the agent that a command line names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys

from server.agents.base import Agent


class AgentNotFound(Exception):
    """The text does not name an agent; the message says what is wrong and what to do."""


def load_agent(spec: str) -> Agent:
    """An instance of `module:Class`, with the current folder on the import path, as `python -m` has it."""
    module_name, _, class_name = spec.partition(":")
    if not module_name or not class_name:
        raise AgentNotFound(f"--agent {spec!r} must look like 'module:Class', for example 'examples.echo:Echo'")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise AgentNotFound(f"--agent {spec!r}: importing {module_name} failed: {error}") from error
        raise AgentNotFound(
            f"--agent {spec!r}: there is no module {error.name!r}; start in the folder that holds it, or install it"
        ) from error
    found = getattr(module, class_name, None)
    if found is None:
        known = sorted(name for name, item in vars(module).items() if _is_agent(item) and item is not Agent)
        hint = f"; it has {', '.join(known)}" if known else ""
        raise AgentNotFound(f"--agent {spec!r}: module {module_name} has no {class_name}{hint}")
    if isinstance(found, Agent):
        return found
    if not _is_agent(found):
        raise AgentNotFound(f"--agent {spec!r}: {class_name} is not a subclass of server.agents.Agent")
    if not inspect.iscoroutinefunction(found.run):
        raise AgentNotFound(f"--agent {spec!r}: {class_name}.run must be 'async def run(self, turn)'")
    agent: Agent = found()
    return agent


def _is_agent(item: object) -> bool:
    return inspect.isclass(item) and issubclass(item, Agent)
