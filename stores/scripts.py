"""Loads the Lua operations: names for keys and arguments, shared parts, and error lines that point into the files.

A script's header is its documentation and its signature:

    -- @keys context ?live      keys by name; one with `?` may be left out, and is nil then
    -- @args task fence ...rest arguments by name; a last one with `...` takes all that follow, as a table
    -- @include clock partition shared parts from lua/include, in this order
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_DIRECTIVE = re.compile(r"^--\s*@(keys|args|include)\s+(.*)$")
_ERROR_LINE = re.compile(r"user_script:\s*(\d+)")

Argument = str | int


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, ready to be sent. `sha` is of the content, so two releases coexist on one Redis."""

    name: str
    body: str
    sha: str
    keys: tuple[str, ...]
    required_keys: int
    args: tuple[str, ...]
    rest: str | None
    lines: tuple[str, ...]

    def bind(self, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()) -> list[Argument]:
        """The EVALSHA arguments for this call: key count, keys, arguments in their declared order."""
        if not self.required_keys <= len(keys) <= len(self.keys):
            raise TypeError(f"{self.name} takes the keys {self.keys}, got {len(keys)}")
        if rest and self.rest is None:
            raise TypeError(f"{self.name} takes no further arguments")
        try:
            return [len(keys), *keys, *[args[name] for name in self.args], *rest]
        except KeyError as missing:
            raise TypeError(f"{self.name} wants the argument {missing}") from None

    def explain(self, error: str) -> str:
        """A Lua error with its line number turned into file and line."""

        def place(match: re.Match[str]) -> str:
            number = int(match.group(1))
            return self.lines[number - 1] if 0 < number <= len(self.lines) else match.group(0)

        return f"{self.name}: {_ERROR_LINE.sub(place, error)}"


@cache
def load(name: str) -> Script:
    """The script of that name from the package's lua folder."""
    return assemble(name, _read(f"{name}.lua"), lambda part: _read(f"include/{part}.lua"))


def names() -> list[str]:
    """Every operation there is."""
    return sorted(item.name[:-4] for item in files("stores").joinpath("lua").iterdir() if item.name.endswith(".lua"))


def assemble(name: str, source: str, read_include: object) -> Script:
    """Builds a script from its text; `read_include` gives the text of a shared part."""
    assert callable(read_include)
    found: dict[str, list[str]] = {"keys": [], "args": [], "include": []}
    for line in source.splitlines():
        if match := _DIRECTIVE.match(line):
            found[match.group(1)].extend(match.group(2).split())
    keys = tuple(key.lstrip("?") for key in found["keys"])
    rest = next((arg[3:] for arg in found["args"] if arg.startswith("...")), None)
    args = tuple(arg for arg in found["args"] if not arg.startswith("..."))

    head: list[str] = []
    if keys:
        head.append(f"local {', '.join(keys)} = {', '.join(f'KEYS[{i + 1}]' for i in range(len(keys)))}")
    if args:
        head.append(f"local {', '.join(args)} = {', '.join(f'ARGV[{i + 1}]' for i in range(len(args)))}")
    if rest:
        head.append(f"local {rest} = {{}} for i = {len(args) + 1}, #ARGV do {rest}[i - {len(args)}] = ARGV[i] end")

    body: list[str] = []
    lines: list[str] = []

    def add(place: str, text: Sequence[str]) -> None:
        for number, line in enumerate(text, 1):
            body.append(line)
            lines.append(f"{place}:{number}")

    add(f"{name}.lua header", head)
    for part in found["include"]:
        add(f"include/{part}.lua", read_include(part).splitlines())
    add(f"{name}.lua", source.splitlines())
    text = "\n".join(body) + "\n"
    return Script(
        name=name,
        body=text,
        sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        keys=keys,
        required_keys=sum(1 for key in found["keys"] if not key.startswith("?")),
        args=args,
        rest=rest,
        lines=tuple(lines),
    )


def _read(path: str) -> str:
    return files("stores").joinpath("lua").joinpath(path).read_text(encoding="utf-8")
