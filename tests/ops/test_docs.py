"""Pages that are made from the program, or speak of it, say what it is now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.config.reference import render
from server.config.settings import Settings
from server.observe import metrics
from tests.support.fleet import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))


def test_the_configuration_reference_is_current() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    assert page == render(), "run: python -m server.config.reference > docs/configuration.md"
    for name in Settings.model_fields:
        assert name in ("agent", "assistant") or f"### {name}\n" in page


def test_every_metric_is_explained() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    for name, metric in metrics.REGISTRY.metrics.items():
        labels = ", ".join([*metric.labels, "worker"])
        assert f"| `{name}` | {metric.kind} | {labels} | {metric.text} |" in page
    for name, text in metrics.EXTRA.items():
        assert f"| `{name}` | gauge |" in page
        assert text in page


def test_every_event_that_is_explained_is_logged_somewhere() -> None:
    source = "".join(path.read_text() for part in ("server", "stores") for path in (ROOT / part).rglob("*.py"))
    page = (ROOT / "docs/operations.md").read_text()
    ours = {name for name in re.findall(r"`(a2a_server\.[a-z_.]+)`", page) if "rasa_a2a" not in name}
    for name in ours:
        if "sanic_app" in name:
            continue
        # The deliveries' events are made of a common beginning and a word.
        assert name in source or (name.startswith("a2a_server.push.") and name.rpartition(".")[2] in source), name


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCS], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for linked in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / linked).exists(), linked


def test_every_page_can_be_found_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in readme, path.name
    assert "docs/runbooks/README.md" in readme
