"""One page for all workers of a replica, whichever of them is asked.

Workers share a port, so a scrape reaches any of them; a page of that one's numbers alone would jump between workers.
Each worker writes its numbers once a second to a file in a private folder that all children of one master find by
themselves; the page is made of all files that are fresh, each worker under a label of its own, so that a rate never
sees one worker's number after another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from server.observe import metrics
from server.observe.registry import Registry
from stores.embedded import EmbeddedEngineError, make_private

log = logging.getLogger(__name__)

PUBLISH_SECONDS = 1.0
# A worker that has not written for so long is gone; one that is only slow comes back with its next page.
FRESH_SECONDS = 15.0
# What a killed worker left is swept by the others.
SWEEP_SECONDS = 600.0
PREFIX = "nonstick-metrics-"

Sample = tuple[str, dict[str, str], float]


class Board:
    """Publishes this worker's numbers, and reads all of the replica's."""

    def __init__(self, registry: Registry, replica: str) -> None:
        """`replica` is what all workers of it have in common, and no other has."""
        self._registry = registry
        self._worker = str(os.getpid())
        mark = hashlib.sha256(f"{os.getuid()} {os.getppid()} {replica}".encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir(), f"{PREFIX}{mark}")
        self._file = self._folder / f"{self._worker}-{secrets.token_hex(4)}.json"
        self._task: asyncio.Task[None] | None = None
        self._alone = False
        self.before_publishing: Callable[[], None] = lambda: None
        """Called to bring numbers up to date that are counted elsewhere."""

    def start(self) -> None:
        try:
            _sweep(self._folder.parent)
            make_private(self._folder)
            self._write("")
        except (OSError, EmbeddedEngineError) as error:
            # Without a place to write, each worker can only speak for itself.
            self._alone = True
            log.warning("a2a_server.metrics.not_shared error=%s", error)
        self._task = asyncio.create_task(self._run(), name="metrics")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
            self._folder.rmdir()  # only the last one can

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PUBLISH_SECONDS
            await asyncio.sleep(PUBLISH_SECONDS)
            metrics.LOOP_LAG.observe(max(0.0, loop.time() - due))
            self._publish()

    def _publish(self) -> dict[str, Any]:
        """What is shown is always written first: another worker that is asked next must not show an older number, or a
        counter would seem to have begun anew."""
        self.before_publishing()
        own = {"worker": self._worker, "metrics": self._registry.snapshot()}
        if not self._alone:
            # A full disk costs the others our numbers for a while, not this page.
            with contextlib.suppress(OSError, EmbeddedEngineError):
                self._write(json.dumps(own, separators=(",", ":")))
        return own

    def _write(self, text: str) -> None:
        draft = self._file.with_suffix(".new")
        try:
            draft.write_text(text)
        except FileNotFoundError:
            # The last worker that went took the folder along, before there was anything of ours in it.
            make_private(self._folder)
            draft.write_text(text)
        draft.replace(self._file)

    def page(self, extra: Mapping[str, list[Sample]]) -> str:
        """The page in Prometheus' text format."""
        pages = [self._publish(), *self._others()]
        lines: list[str] = []
        for name, metric in self._registry.metrics.items():
            lines += [f"# HELP {name} {_help(metric.text)}", f"# TYPE {name} {metric.kind}"]
            for page in pages:
                for suffix, labels, value in page["metrics"].get(name, ()):
                    lines.append(_line(name + suffix, {**labels, "worker": page["worker"]}, value))
        for name, samples in extra.items():
            lines += [f"# HELP {name} {_help(metrics.EXTRA[name])}", f"# TYPE {name} gauge"]
            lines += [_line(name + suffix, labels, value) for suffix, labels, value in samples]
        return "\n".join(lines) + "\n"

    def _others(self) -> list[dict[str, Any]]:
        now, pages = time.time(), []
        with contextlib.suppress(OSError):
            for file in sorted(self._folder.glob("*.json")):
                if file == self._file:
                    continue
                with contextlib.suppress(OSError, ValueError):
                    age = now - file.stat().st_mtime
                    if age < FRESH_SECONDS:
                        pages.append(json.loads(file.read_text()))
                    elif age > SWEEP_SECONDS:
                        file.unlink()
        return pages


def _sweep(parent: Path) -> None:
    """Removes what replicas left that were killed: folders of ours in which nobody has written for long."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            files = list(folder.iterdir())
            latest = max(path.lstat().st_mtime for path in [folder, *files])
            if folder.lstat().st_uid == os.getuid() and time.time() - latest > SWEEP_SECONDS:
                for file in files:
                    file.unlink()
                folder.rmdir()


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = str(int(value)) if value == int(value) else repr(value)
    return f"{name}{{{shown}}} {number}" if shown else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
