"""The measured part of docs/performance.md: everything between two marks is written by `make bench ARGS=--write`."""

from __future__ import annotations

from collections.abc import Mapping

from bench import table
from bench.children import ROOT
from bench.plot import plot
from bench.results import Results

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(results: Results, titles: Mapping[str, str]) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise ValueError(f"{PAGE} has no place for the numbers between {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n{render(results, titles)}\n{END}{after}")
    PICTURE.write_text(plot(results))


def render(results: Results, titles: Mapping[str, str]) -> str:
    about = results.about
    versions = [f"{name} {version}" for name, version in {**about["versions"], "Valkey": about["valkey"]}.items()]
    peers = [f"{name} {version}" for name, version in about["peers"].items()]
    parts = [
        f"Measured {about['date'][:10]} on {about['cores']} cores ({about['processor']}, {about['system']}), Python "
        f"{about['python']}, in {about['took_s'] // 60} min; load average {about['load_before']} before and "
        f"{about['load_after']} after, of which this run itself is about 2: others worked on the machine where it was "
        f"more. {', '.join(versions)}; peers: {', '.join(peers)}.",
        "![CPU of a turn and of an event](performance.svg)",
    ]
    for scenario, title in titles.items():
        if rows := results.of(scenario):
            parts.append(f"### {scenario}\n\n{title}\n\n{table.markdown(rows)}")
    if results.skipped:
        parts.append("Not run: " + "; ".join(f"{name} ({why})" for name, why in results.skipped.items()) + ".")
    if results.failed:
        parts.append("Failed, so without numbers: " + ", ".join(results.failed) + ".")
    return "\n\n".join(parts)
