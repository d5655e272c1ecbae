"""What is wrong with an assistant's files, said so that its author can act on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

GENERAL = "validation.assistant.invalid"
SESSION_CONFIG = "validation.a2a_server.incompatible_session_config"


class Severity(StrEnum):
    """An error stops the load; a warning is printed and the assistant runs."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it is, what it is, and what to do about it."""

    message: str
    fix: str
    file: str = ""
    line: int = 0
    flow: str = ""
    step: str = ""
    severity: Severity = Severity.ERROR
    code: str = GENERAL

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        parts = [where] if where else []
        if self.flow:
            parts.append(f"flow '{self.flow}'" + (f", step '{self.step}'" if self.step else ""))
        prefix = ": ".join(parts)
        return f"{self.severity}: {prefix + ': ' if prefix else ''}{self.message} {self.fix} [{self.code}]"


class AssistantInvalid(Exception):
    """The assistant can't be loaded; `problems` holds everything that was found, not just the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
        super().__init__("The assistant can't be loaded:\n" + "\n".join(errors))


@dataclass(frozen=True, slots=True)
class Reporter:
    """Collects problems; `at` narrows the place they are reported for."""

    found: list[Problem] = field(default_factory=list)
    file: str = ""
    line: int = 0
    flow: str = ""
    step: str = ""

    def at(
        self, *, file: str | None = None, line: int | None = None, flow: str | None = None, step: str | None = None
    ) -> Reporter:
        return replace(
            self,
            file=self.file if file is None else file,
            line=line or self.line,
            flow=self.flow if flow is None else flow,
            step=self.step if step is None else step,
        )

    def error(self, message: str, fix: str, *, code: str = GENERAL) -> None:
        self._add(message, fix, Severity.ERROR, code)

    def warning(self, message: str, fix: str, *, code: str = GENERAL) -> None:
        self._add(message, fix, Severity.WARNING, code)

    @property
    def failed(self) -> bool:
        return any(problem.severity is Severity.ERROR for problem in self.found)

    def _add(self, message: str, fix: str, severity: Severity, code: str) -> None:
        self.found.append(Problem(message, fix, self.file, self.line, self.flow, self.step, severity, code))
