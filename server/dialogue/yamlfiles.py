"""Reads YAML with line numbers, without the surprises of YAML 1.1 and without silently merged keys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml

from server.dialogue.problems import Reporter

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Located(dict[str, Any]):
    """A mapping that remembers the line it was written on."""

    line: int = 0


class _Duplicate(yaml.YAMLError):
    def __init__(self, key: str, line: int) -> None:
        super().__init__(key)
        self.key = key
        self.line = line


class _Loader(yaml.CSafeLoader):
    """Only true/false are booleans and only plain numbers are numbers, as flow authors expect.

    YAML 1.1 would also turn `yes`, `no`, `on`, `8:30` and `2026-01-02` into something else than text.
    """


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|[0-9]+[eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^(?:<<)$"), ["<"])


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    # base 10 always: the stock constructor reads 010 as octal
    return int(loader.construct_scalar(node))


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> Located:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
            if key_node.value in seen:
                raise _Duplicate(key_node.value, key_node.start_mark.line + 1)
            seen.add(key_node.value)
    loader.flatten_mapping(node)
    result = Located()
    result.line = node.start_mark.line + 1
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        result[key if isinstance(key, str) else str(key_node.value)] = loader.construct_object(value_node, deep=True)
    return result


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


def parse_yaml(text: str, report: Reporter) -> Located | None:
    """The file's top-level mapping, or None after reporting why there is none."""
    try:
        content = yaml.load(text, _Loader)
    except _Duplicate as error:
        report.at(line=error.line).error(
            f"The key '{error.key}' is written twice in the same mapping.", "Keep one of the two."
        )
        return None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "it can't be read"
        report.at(line=mark.line + 1 if mark else 0).error(
            f"This is not valid YAML: {reason}.", "Check the indentation and the quotes around this line."
        )
        return None
    if content is None:
        return Located()
    if not isinstance(content, Located):
        report.error("The file must be a mapping (key: value).", "Put its content under a key such as 'flows:'.")
        return None
    return content


def read_yaml(path: Path, root: Path, report: Reporter) -> Located | None:
    """Reads one file of an assistant; its name is reported relative to the assistant's folder."""
    name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    here = report.at(file=name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        here.error(f"The file can't be read ({type(error).__name__}).", "Save it as UTF-8 and check its permissions.")
        return None
    return parse_yaml(text, here)


def interpolate(value: Any, report: Reporter) -> Any:
    """Replaces ${VAR} by the environment's value, everywhere in a YAML tree."""
    if isinstance(value, str):

        def lookup(match: re.Match[str]) -> str:
            found = os.environ.get(match.group(1))
            if found is None:
                report.error(
                    f"The environment variable {match.group(1)} is not set.", f"Set {match.group(1)} before starting."
                )
                return ""
            return found

        return _VARIABLE.sub(lookup, value)
    if isinstance(value, Located):
        result = Located({key: interpolate(item, report) for key, item in value.items()})
        result.line = value.line
        return result
    if isinstance(value, list):
        return [interpolate(item, report) for item in value]
    return value


def is_variable(value: Any) -> bool:
    """True when a secret is written as ${VAR}, the only form in which we accept one."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value.strip()) is not None
