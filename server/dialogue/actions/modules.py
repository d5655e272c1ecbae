"""Finds and imports an assistant's Python actions."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from server.dialogue import sdk
from server.dialogue.problems import Reporter

_SHIMS = ("rasa_sdk", "rasa_sdk.executor", "rasa_sdk.events", "rasa_sdk.types", "rasa_sdk.interfaces")


def find_module(root: Path, configured: str | None) -> str | None:
    """The module that holds the actions: the configured one, else actions.py or actions/ in the folder."""
    if configured:
        return configured
    if (root / "actions.py").is_file() or (root / "actions" / "__init__.py").is_file():
        return "actions"
    return None


def load_actions(root: Path, module: str, report: Reporter) -> dict[str, Any]:
    """Name -> instance of every concrete action class of the module and its submodules."""
    found: dict[str, Any] = {}
    here = report.at(file=module)
    try:
        with _importable(root), _compatible_sdk():
            modules = _import_all(root, module)
    except Exception as error:  # the author's code: anything can come out of it
        here.error(
            f"The actions can't be imported: {type(error).__name__}: {error}.",
            "Correct the module, or install what it needs.",
        )
        return found
    for loaded in modules:
        for cls in vars(loaded).values():
            if not _is_action(cls) or cls.__module__ != loaded.__name__:
                continue
            _register(cls, found, here)
    return found


def _register(cls: type, found: dict[str, Any], here: Reporter) -> None:
    try:
        instance = cls()
        name = instance.name()
    except NotImplementedError:
        return  # a base class
    except Exception as error:
        here.error(
            f"The action class {cls.__name__} can't be created: {type(error).__name__}: {error}.",
            "An action is created without arguments.",
        )
        return
    if not isinstance(name, str) or not name:
        here.error(f"name() of the action class {cls.__name__} gives no text.", "Return the action's name.")
    elif name in found:
        here.error(f"Two action classes are called '{name}'.", "Rename one of them.")
    else:
        found[name] = instance


def _is_action(candidate: Any) -> bool:
    return (
        inspect.isclass(candidate)
        and not inspect.isabstract(candidate)
        and callable(getattr(candidate, "name", None))
        and callable(getattr(candidate, "run", None))
    )


def _import_all(root: Path, name: str) -> list[types.ModuleType]:
    """Imports afresh, so that a reload sees changed files and two assistants don't share modules."""
    top = name.partition(".")[0]
    if (root / f"{top}.py").is_file() or (root / top).is_dir():
        for loaded in [key for key in sys.modules if key == top or key.startswith(f"{top}.")]:
            del sys.modules[loaded]
    importlib.invalidate_caches()
    first = importlib.import_module(name)
    modules = [first]
    for info in pkgutil.walk_packages(getattr(first, "__path__", ()), f"{name}."):
        modules.append(importlib.import_module(info.name))
    return modules


@contextmanager
def _importable(root: Path) -> Iterator[None]:
    """The assistant's folder comes first while importing; no bytecode, which could outlive a quick edit."""
    path, wrote = str(root.resolve()), sys.dont_write_bytecode
    sys.path.insert(0, path)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = wrote
        sys.path.remove(path)


@contextmanager
def _compatible_sdk() -> Iterator[None]:
    """Without an installed rasa_sdk, actions that import it get our compatible classes."""
    if "rasa_sdk" in sys.modules or importlib.util.find_spec("rasa_sdk") is not None:
        yield
        return
    names = {name: value for name, value in vars(sdk).items() if not name.startswith("_")}
    for shim in _SHIMS:
        module = types.ModuleType(shim)
        module.__dict__.update(names)
        module.__path__ = []
        sys.modules[shim] = module
    try:
        yield
    finally:
        for shim in _SHIMS:
            sys.modules.pop(shim, None)
