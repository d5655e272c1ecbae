"""Counters, histograms and gauges of one process: plain numbers, so that counting costs well below a microsecond.

A library's values live in shared memory behind a lock, which is several microseconds for each; ours are written out
once a second by whoever shows them (`server.observe.board`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Literal

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]


class Metric:
    """What all of them have. `samples` are (suffix, labels, value)."""

    kind: Kind

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name = name
        self.text = text
        self.labels = labels

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        raise NotImplementedError


class Counter(Metric):
    """Something that happened so many times."""

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(name, text, *labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        self._values[values] = self._values.get(values, 0) + by

    def set(self, total: float, *values: str) -> None:
        """For what somebody else counts."""
        self._values[values] = total

    def value(self, *values: str) -> float:
        return self._values.get(values, 0)

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        return [("", dict(zip(self.labels, key, strict=True)), value) for key, value in self._values.items()]


class Gauge(Metric):
    """How much there is now: a number that was set, or a function that is asked when it is shown."""

    kind = "gauge"

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self._value: float = 0
        self._ask: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self._value = value

    def ask(self, how: Callable[[], float] | None) -> None:
        self._ask = how

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        return [("", {}, self._ask() if self._ask is not None else self._value)]


class Histogram(Metric):
    """How long things took, in seconds, counted by bucket."""

    kind = "histogram"

    def __init__(self, name: str, text: str, *labels: str, bounds: tuple[float, ...]) -> None:
        super().__init__(name, text, *labels)
        self.bounds = bounds
        self._rows: dict[Labels, list[float]] = {}
        if not labels:
            self._row(())

    def _row(self, key: Labels) -> list[float]:
        """Counts by bucket, the last one for what is beyond all bounds, and then the sum."""
        row = self._rows[key] = [0.0] * (len(self.bounds) + 2)
        return row

    def observe(self, seconds: float, *values: str) -> None:
        row = self._rows.get(values) or self._row(values)
        row[bisect_left(self.bounds, seconds)] += 1
        row[-1] += seconds

    def set(self, row: list[float], *values: str) -> None:
        """For what somebody else counts: a row of the same bounds, which may go on changing."""
        self._rows[values] = row

    def count(self, *values: str) -> float:
        return sum(self._rows.get(values, [0.0])[:-1])

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        shown: list[tuple[str, dict[str, str], float]] = []
        for key, row in self._rows.items():
            labels = dict(zip(self.labels, key, strict=True))
            total = 0.0
            for bound, count in zip((*map(str, self.bounds), "+Inf"), row[:-1], strict=True):
                total += count
                shown.append(("_bucket", {**labels, "le": bound}, total))
            shown += [("_sum", labels, row[-1]), ("_count", labels, total)]
        return shown


class Registry:
    """Every metric of this process, by name."""

    def __init__(self) -> None:
        self.metrics: dict[str, Metric] = {}

    def _add(self, metric: Metric) -> Any:
        if metric.name in self.metrics:
            raise ValueError(f"there is a metric {metric.name} already")
        self.metrics[metric.name] = metric
        return metric

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        made: Counter = self._add(Counter(name, text, *labels))
        return made

    def gauge(self, name: str, text: str) -> Gauge:
        made: Gauge = self._add(Gauge(name, text))
        return made

    def histogram(self, name: str, text: str, *labels: str, bounds: tuple[float, ...]) -> Histogram:
        made: Histogram = self._add(Histogram(name, text, *labels, bounds=bounds))
        return made

    def snapshot(self) -> dict[str, Any]:
        """All samples, as JSON can hold them."""
        return {name: metric.samples() for name, metric in self.metrics.items()}
