"""A block of a YAML file as plain values, with the line that each of them stands on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from server.config.problems import ConfigProblem, ConfigRefused, problem

# Deeper than any block of ours; what nests beyond it is an alias that contains itself.
MAX_DEPTH = 32

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """`values` of one block before interpolation; `lines` maps the way to a value (keys, indexes) to its line."""

    file: Path
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)

    def where(self, place: Place = ()) -> str:
        """The nearest known line: an absent key has the line of what it is absent from."""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.file}:{self.lines.get(place, 1)}"

    def refuse(self, code: str, place: Place, message: str, hint: str) -> None:
        self.problems.append(problem(code, self.where(place), message, hint))


@dataclass(frozen=True, slots=True)
class Override:
    """A value from the command line or the environment, and what to call its place in an error."""

    value: object
    where: str


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that was most likely meant; taskTimeoutSeconds and task-timeout-seconds count as well spelt."""
    folded = {candidate.replace("_", ""): candidate for candidate in valid}
    wanted = name.lower().replace("_", "").replace("-", "")
    found = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def read_block(file: Path, name: str) -> Document:
    """Read the block called `name`; other top-level blocks belong to others and are left alone."""
    document = Document(file)
    text = _text(document)
    try:
        _read_file(document, yaml.SafeLoader(text), name)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.lines[()] = mark.line + 1 if mark else 1
        document.refuse(
            "yaml_syntax", (), f"The file is not valid YAML: {error.problem or error.context}.", "Correct this line."
        )
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        document.refuse("yaml_syntax", (), f"The file is not valid YAML: {reason}.", "Correct the file.")
    return document


def _text(document: Document) -> str:
    try:
        return document.file.read_text(encoding="utf-8")
    except FileNotFoundError:
        message, hint = "The file does not exist.", "Check the path after --endpoints."
    except UnicodeDecodeError as error:
        message, hint = f"The file is not UTF-8 text (byte {error.start}).", "Save it as UTF-8."
    except OSError as error:
        message, hint = f"The file can't be read: {error.strerror}.", "Check what it is and who may read it."
    raise ConfigRefused([problem("file_unreadable", str(document.file), message, hint)])


def _read_file(document: Document, loader: yaml.SafeLoader, name: str) -> None:
    root = loader.get_single_node()
    if isinstance(root, yaml.MappingNode):
        _read_top(document, loader, root, name)
    elif root is None:
        _refuse_absent(document, name, ())
    else:
        document.refuse("not_a_mapping", (), "The file is not a mapping of blocks.", f"Begin it with `{name}:`.")


def _read_top(document: Document, loader: yaml.SafeLoader, root: yaml.MappingNode, name: str) -> None:
    keys = {key.value: (key, value) for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    if "tls" in keys:
        document.lines[("tls",)] = _line(keys["tls"][0])
        refuse_tls(document, ("tls",))
    if name not in keys:
        _refuse_absent(document, name, keys)
        return
    key, node = keys[name]
    document.lines[()] = _line(key)
    if sum(1 for other, _ in root.value if other.value == name) > 1:
        document.refuse("duplicate_key", (), f"{name} stands in the file twice.", "Keep one of the two.")
    values = _plain(document, loader, node, ())
    if isinstance(values, dict):
        document.values.update(values)
    elif values is not None:
        document.refuse("not_a_mapping", (), f"{name} is not a mapping of settings.", "Give it keys, indented.")


def refuse_tls(document: Document, place: Place) -> None:
    document.refuse(
        "tls_block",
        place,
        "A tls block is not how this server gets its certificate.",
        "Remove the block and start with --ssl-certificate and --ssl-keyfile, or let your proxy speak TLS.",
    )


def _refuse_absent(document: Document, name: str, keys: Iterable[str]) -> None:
    meant = nearest(name, keys)
    document.refuse(
        "missing_block",
        (),
        f"The file has no {name} block.",
        f"Rename {meant} to {name}." if meant else f"Add `{name}:` with a description, or leave --endpoints out.",
    )


def _plain(document: Document, loader: yaml.SafeLoader, node: yaml.Node, place: Place) -> Any:
    document.lines.setdefault(place, _line(node))
    if len(place) > MAX_DEPTH:
        document.refuse("invalid_value", place, "The block is nested too deeply.", "Flatten it.")
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, loader, node, place)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, loader, child, (*place, index)) for index, child in enumerate(node.value)]
    try:
        return loader.construct_object(node)
    except ValueError as error:  # a date that is none, for one
        document.refuse("invalid_value", place, f"This value can't be read: {error}.", "Put it in quotes.")
        return None


def _mapping(document: Document, loader: yaml.SafeLoader, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        name = str(key.value)
        if name in seen and name != "<<":
            document.lines[(*place, name)] = _line(key)
            document.refuse(
                "duplicate_key", (*place, name), f"{_dotted((*place, name))} stands here twice.", "Keep one of the two."
            )
        seen.add(name)
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key, child in node.value:
        name = str(key.value)
        document.lines[(*place, name)] = _line(key)
        result[name] = _plain(document, loader, child, (*place, name))
    return result


def _dotted(place: Place) -> str:
    return ".".join(str(step) for step in place)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
