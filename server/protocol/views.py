"""What an answer shows of the model: shortened histories, push configs with their task, wire timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from time import gmtime

from server.protocol.model import Card, Message, PushConfig, Task, TaskPage


@dataclass(frozen=True, slots=True)
class TaskPush:
    """A push config together with the task it belongs to, as every push operation answers it."""

    task_id: str
    config: PushConfig


Result = Task | Message | TaskPage | TaskPush | Sequence[TaskPush] | Card | None


def trim_history(task: Task, history_length: int | None) -> Task:
    """The task with at most its last `history_length` messages; None keeps them all. The status message stays."""
    if history_length is None or len(task.history) <= history_length:
        return task
    return replace(task, history=task.history[-history_length:] if history_length else ())


def timestamp(at_ms: int) -> str:
    """UTC with exactly three fraction digits and `Z`: the one form that no client of either version refuses."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_to_the_second(seconds)}.{ms:03d}Z"


@lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    # Events of one turn share their second, so the calendar is computed about once per second and worker.
    year, month, day, hour, minute, second, *_ = gmtime(seconds)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"
