"""The condition language of guards, branches, rejections and response variations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
Evaluator = Callable[[Values, Values], Any]

# `matches` runs an author's pattern over a user's text: a longer text simply does not match, so that a pattern that
# backtracks badly can't be fed with kilobytes.
MATCH_LENGTH_CAP = 2000


class ConditionError(ValueError):
    """The condition does not follow the grammar; the message says where."""


class _Undefined:
    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "undefined"


class _Empty:
    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "empty"


UNDEFINED = _Undefined()
EMPTY = _Empty()

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'[^']*'|"[^"]*")
    | (?P<number>[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)
    | (?P<op>==|!=|<=|>=|=|<|>|\(|\)|\{|\})
    )""",
    re.VERBOSE,
)
_REGEX = re.compile(r"\s*(?:/(?P<body>(?:\\.|[^/\\])*)/(?P<flags>[imsul]*)|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\")")
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "u": re.UNICODE, "l": 0}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": UNDEFINED, "empty": EMPTY}
_KEYWORDS = frozenset({"and", "or", "not", "is", "contains", "matches", *_CONSTANTS})
_COMPARISONS = frozenset({"=", "==", "!=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition: `holds` evaluates it, the rest is what validation asks about it."""

    text: str
    evaluate: Evaluator
    slots: frozenset[str]
    mixed: bool  # and/or side by side without parentheses
    constant: bool | None  # the value, when the text is a bare literal
    patterns: tuple[tuple[str, str], ...]  # (slot, regular expression) of each `slots.x matches ...`

    def holds(self, slots: Values, context: Values) -> bool:
        return bool(self.evaluate(slots, context))


def compile_condition(text: object) -> Condition:
    """Parses and compiles a condition; YAML may have read it as a boolean already."""
    source = str(text).strip()
    if not source:
        raise ConditionError("the condition is empty")
    parser = _Parser(source)
    evaluate = parser.expression()
    parser.expect_end()
    constant = {"true": True, "false": False}.get(source.lower())
    return Condition(source, evaluate, frozenset(parser.slots), parser.mixed, constant, tuple(parser.patterns))


class _Parser:
    """Recursive descent; `and` and `or` bind equally and to the right, as in the language this follows."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind = ""
        self._token = ""
        self._start = 0
        self.slots: set[str] = set()
        self.patterns: list[tuple[str, str]] = []
        self.mixed = False
        self._name: str | None = None
        self._next()

    def expression(self) -> Evaluator:
        evaluate, _ = self._expression()
        return evaluate

    def expect_end(self) -> None:
        if self._kind != "end":
            raise self._error(f"unexpected '{self._token}'")

    def _expression(self) -> tuple[Evaluator, str]:
        left = self._unary()
        word = self._word()
        if word not in ("and", "or"):
            return left, ""
        self._next()
        right, below = self._expression()
        if below and below != word:
            self.mixed = True
        if word == "and":
            return (lambda slots, context: left(slots, context) and right(slots, context)), word
        return (lambda slots, context: left(slots, context) or right(slots, context)), word

    def _unary(self) -> Evaluator:
        if self._word() == "not":
            self._next()
            inner = self._unary()
            return lambda slots, context: not inner(slots, context)
        return self._term()

    def _term(self) -> Evaluator:
        left = self._factor()
        name = self._name
        if self._kind == "op" and self._token in _COMPARISONS:
            operator = self._token
            self._next()
            return _compare(operator, left, self._factor())
        word = self._word()
        if word == "is":
            self._next()
            negated = self._word() == "not"
            if negated:
                self._next()
            return _compare("!=" if negated else "==", left, self._factor())
        if word == "contains":
            self._next()
            right = self._factor()
            return lambda slots, context: _contains(left(slots, context), right(slots, context))
        if word == "matches":
            pattern = self._regex()
            if name is not None:
                self.patterns.append((name, pattern.pattern))
            self._next()
            search = pattern.search

            def matches(slots: Values, context: Values) -> bool:
                value = left(slots, context)
                return isinstance(value, str) and len(value) <= MATCH_LENGTH_CAP and search(value) is not None

            return matches
        return left

    def _factor(self) -> Evaluator:
        self._name = None
        kind, token = self._kind, self._token
        if kind == "string":
            self._next()
            return _constant(token[1:-1])
        if kind == "number":
            self._next()
            return _constant(float(token))
        if kind == "op" and token == "(":
            self._next()
            inner = self.expression()
            self._close(")")
            self._name = None
            return inner
        if kind == "op" and token == "{":
            return self._members()
        if kind == "name":
            word = token.lower()
            if word in _CONSTANTS:
                self._next()
                return _constant(_CONSTANTS[word])
            if word not in _KEYWORDS:
                evaluate = self._variable(token)
                self._next()
                return evaluate
        raise self._error("a value is missing" if kind == "end" else f"a value was expected instead of '{token}'")

    def _members(self) -> Evaluator:
        self._next()
        members: list[Evaluator] = []
        while not (self._kind == "op" and self._token == "}"):
            if self._kind == "end":
                raise self._error("'}' is missing")
            members.append(self._factor())
        self._next()
        return lambda slots, context: [member(slots, context) for member in members]

    def _variable(self, path: str) -> Evaluator:
        namespace, _, rest = path.partition(".")
        first, *deeper = rest.split(".")
        if namespace not in ("slots", "context") or not first:
            raise self._error(f"'{path}' is neither slots.<name> nor context.<name> (put quotes around a text)")
        if namespace == "slots":
            self.slots.add(first)
            self._name = first if not deeper else None
            if not deeper:
                return lambda slots, context: slots.get(first)
            return lambda slots, context: _descend(slots.get(first), deeper)
        if not deeper:
            return lambda slots, context: context.get(first, UNDEFINED)
        return lambda slots, context: _descend(context.get(first, UNDEFINED), deeper)

    def _regex(self) -> re.Pattern[str]:
        # the current token is `matches`; the expression is read raw, since it may hold any character
        match = _REGEX.match(self._text, self._at)
        if match is None:
            raise self._error('after "matches" a regular expression in quotes or slashes was expected')
        self._at = match.end()
        flags = 0
        for letter in match.group("flags") or "":
            flags |= _FLAGS[letter]
        source = next(group for group in match.group("body", "single", "double") if group is not None)
        try:
            return re.compile(source, flags)
        except re.error as error:
            raise ConditionError(f"the regular expression '{source}' is not valid: {error}") from error

    def _word(self) -> str:
        return self._token.lower() if self._kind == "name" else ""

    def _close(self, token: str) -> None:
        if self._kind != "op" or self._token != token:
            raise self._error(f"'{token}' is missing")
        self._next()

    def _next(self) -> None:
        rest = self._text[self._at :]
        if not rest.strip():
            self._kind, self._token, self._start = "end", "", len(self._text)
            return
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise ConditionError(f"unexpected '{rest.strip()[:10]}' at character {self._at + 1} of '{self._text}'")
        self._kind = match.lastgroup or ""
        self._token = match.group(self._kind)
        self._start = match.start(self._kind)
        self._at = match.end()

    def _error(self, reason: str) -> ConditionError:
        return ConditionError(f"{reason} at character {self._start + 1} of '{self._text}'")


def _constant(value: Any) -> Evaluator:
    return lambda slots, context: value


def _compare(operator: str, left: Evaluator, right: Evaluator) -> Evaluator:
    match operator:
        case "=" | "==":
            return lambda slots, context: _equal(left(slots, context), right(slots, context))
        case "!=":
            return lambda slots, context: not _equal(left(slots, context), right(slots, context))
        case _:
            test = _ORDER[operator]

            def ordered(slots: Values, context: Values) -> bool:
                a, b = left(slots, context), right(slots, context)
                return _comparable(a, b) and test(a, b)

            return ordered


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _comparable(a: Any, b: Any) -> bool:
    # null, undefined and mixed types are never in any order
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    return (isinstance(a, (int, float)) and isinstance(b, (int, float))) or (isinstance(a, str) and isinstance(b, str))


def _equal(a: Any, b: Any) -> bool:
    if a is EMPTY or b is EMPTY:
        other = b if a is EMPTY else a
        return other is EMPTY or (isinstance(other, (str, list, dict)) and not other)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def _contains(container: Any, member: Any) -> bool:
    if isinstance(container, str):
        return isinstance(member, str) and member in container
    if isinstance(container, (list, tuple)):
        return any(_equal(item, member) for item in container)
    return isinstance(container, dict) and isinstance(member, str) and member in container


def _descend(value: Any, path: list[str]) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return UNDEFINED
        value = value[key]
    return value
