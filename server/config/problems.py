"""What is wrong with a configuration: one problem names its code, its place, what is the matter and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PREFIX = "validation.a2a_server."


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One reason not to start. `where` is `file:line`, a flag (`--port`) or a variable (`REDIS_URL`)."""

    code: str
    where: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.code} at {self.where}\n  {self.message}\n  What to do: {self.hint}"


class ConfigRefused(Exception):
    """The configuration can't be run; carries every problem that was found, not only the first."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def problem(code: str, where: str, message: str, hint: str) -> ConfigProblem:
    """A problem whose code is given without the prefix that all of them share."""
    return ConfigProblem(PREFIX + code, where, message, hint)
