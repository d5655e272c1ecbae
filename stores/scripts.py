"""Loads the Lua operations: names for keys and arguments, shared parts, and error lines that point into the files.

A script's header is its documentation and its signature:

    -- @keys context ?live      keys by name; one with `?` may be left out, and is nil then
    -- @args task fence ...rest arguments by name; a last one with `...` takes all that follow, as a table
    -- @const context_ms        what a worker's configuration says; written into the text, because an argument costs a
                                fifth of a microsecond at each call, and a turn's scripts would have forty of them
    -- @include clock partition shared parts from lua/include, in this order, where the line stands: defining a function
                                costs something at each call, so what only a rare branch needs is included there

On a Cluster a context's slot is apart from those of the fleet and of the callers. A script is then loaded in its other
form (`load_apart`): it gets its first key alone, the parts of lua/include/apart come after those of the same name and
note what they can't write, and apart/tail keeps these notes in the context's slot and answers them with the reply.

    -- @together ... -- @apart room   the lines between are for one node; apart/room.lua stands for them on a Cluster
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import itemgetter

_DIRECTIVE = re.compile(r"^\s*--\s*@(keys|args|const|include|apart)\s+(.*)$")
_TOGETHER = re.compile(r"^\s*--\s*@together\b")
_ERROR_LINE = re.compile(r"user_script:\s*(\d+)")

# The parts that write to other slots than the context's, and note it instead on a Cluster.
_SHIMS = frozenset({"listing", "task", "claim", "unclaimed"})

Argument = str | int


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, ready to be sent. `sha` is of the content, so two releases, or two configurations, coexist on one
    Redis."""

    name: str
    body: str
    sha: str
    keys: tuple[str, ...]
    required_keys: int
    args: tuple[str, ...]
    rest: str | None
    lines: tuple[str, ...]
    pick: Callable[[Mapping[str, Argument]], tuple[Argument, ...]]
    """The arguments in their declared order."""

    def bind(self, keys: Sequence[str], args: Mapping[str, Argument], rest: Sequence[Argument] = ()) -> list[Argument]:
        """The EVALSHA arguments for this call: key count, keys, arguments in their declared order."""
        if not self.required_keys <= len(keys) <= len(self.keys):
            raise TypeError(f"{self.name} takes the keys {self.keys}, got {len(keys)}")
        if rest and self.rest is None:
            raise TypeError(f"{self.name} takes no further arguments")
        try:
            return [len(keys), *keys, *self.pick(args), *rest]
        except KeyError as missing:
            raise TypeError(f"{self.name} wants the argument {missing}") from None

    def explain(self, error: str) -> str:
        """A Lua error with its line number turned into file and line."""

        def place(match: re.Match[str]) -> str:
            number = int(match.group(1))
            return self.lines[number - 1] if 0 < number <= len(self.lines) else match.group(0)

        return f"{self.name}: {_ERROR_LINE.sub(place, error)}"


def load(name: str, constants: Mapping[str, Argument] | None = None) -> Script:
    """The script of that name from the package's lua folder; `constants` has at least those it names."""
    return assemble(name, _read(f"{name}.lua"), lambda part: _read(f"include/{part}.lua"), constants or {})


def load_apart(name: str, constants: Mapping[str, Argument] | None = None) -> Script:
    """The same for a Cluster: the reply of a context's script comes with what is owed to other slots."""
    return assemble(name, _read(f"{name}.lua"), lambda part: _read(f"include/{part}.lua"), constants or {}, apart=True)


def names() -> list[str]:
    """Every operation there is."""
    return sorted(item.name[:-4] for item in files("stores").joinpath("lua").iterdir() if item.name.endswith(".lua"))


def constants_of(name: str) -> list[str]:
    """The settings this operation's text depends on."""
    return _directives(_read(f"{name}.lua"))["const"]


def shared_names() -> list[str]:
    """Those whose text is the same for every worker of this release."""
    return [name for name in names() if not constants_of(name)]


def assemble(
    name: str,
    source: str,
    read_include: Callable[[str], str],
    constants: Mapping[str, Argument] | None = None,
    *,
    apart: bool = False,
) -> Script:
    """Builds a script from its text; `read_include` gives the text of a shared part."""
    found = _directives(source)
    of_context = "prefix" in found["args"]
    head_part = "apart/head" if of_context else "apart/serves"
    if apart:
        for directive, words in _directives(read_include(head_part)).items():
            found[directive] = [word for word in words if word not in found[directive]] + found[directive]
    keys = tuple(key.lstrip("?") for key in found["keys"])
    rest = next((arg[3:] for arg in found["args"] if arg.startswith("...")), None)
    args = tuple(arg for arg in found["args"] if not arg.startswith("..."))

    head: list[str] = []
    if keys:
        head.append(f"local {', '.join(keys)} = {', '.join(f'KEYS[{i + 1}]' for i in range(len(keys)))}")
    if found["const"]:
        # All text, as if they had come as arguments.
        values = ", ".join(_literal(_named(constants or {}, const, name)) for const in found["const"])
        head.append(f"local {', '.join(found['const'])} = {values}")
    if args:
        head.append(f"local {', '.join(args)} = {', '.join(f'ARGV[{i + 1}]' for i in range(len(args)))}")
    if rest:
        head.append(f"local {rest} = {{}} for i = {len(args) + 1}, #ARGV do {rest}[i - {len(args)}] = ARGV[i] end")

    body: list[str] = []
    lines: list[str] = []

    def add_line(place: str, text: str) -> None:
        body.append(text)
        lines.append(place)

    for number, line in enumerate(head, 1):
        add_line(f"{name}.lua header:{number}", line)

    def add_part(part: str) -> None:
        for at, text in enumerate(read_include(part).splitlines(), 1):
            add_line(f"include/{part}.lua:{at}", text)

    if apart:
        add_part(head_part)
    skipping = False
    for number, line in enumerate(source.splitlines(), 1):
        match = _DIRECTIVE.match(line)
        if match and match.group(1) == "apart":
            skipping = False
            if apart and match.group(2) != "nothing":
                add_part(f"apart/{match.group(2)}")
        elif apart and (skipping or _TOGETHER.match(line)):
            skipping = True
            continue
        add_line(f"{name}.lua:{number}", line)
        if match and match.group(1) == "include":
            for part in match.group(2).split():
                add_part(part)
                if apart and part in _SHIMS:
                    add_part(f"apart/{part}")
    if apart and of_context:
        add_part("apart/tail")
    whole = "\n".join(body) + "\n"
    return Script(
        name=name,
        body=whole,
        sha=hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest(),
        keys=keys,
        required_keys=sum(1 for key in found["keys"] if not key.startswith("?")),
        args=args,
        rest=rest,
        lines=tuple(lines),
        pick=_picker(args),
    )


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Argument]], tuple[Argument, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda args: tuple(args[name] for name in names)


def _directives(source: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"keys": [], "args": [], "const": [], "include": [], "apart": []}
    for line in source.splitlines():
        if match := _DIRECTIVE.match(line):
            found[match.group(1)].extend(match.group(2).split())
    return found


def _named(constants: Mapping[str, Argument], const: str, script: str) -> str:
    try:
        return str(constants[const])
    except KeyError:
        raise TypeError(f"{script} wants the constant {const!r}") from None


def _literal(text: str) -> str:
    """Lua's spelling of a text: every byte that is not plain as its number."""
    return "'" + "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:03d}" for b in text.encode()) + "'"


@cache
def _read(path: str) -> str:
    return files("stores").joinpath("lua").joinpath(path).read_text(encoding="utf-8")
