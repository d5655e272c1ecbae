"""What a worker asks of its store before it serves, and whoever wants to know before: see `stores.fitness`."""

from __future__ import annotations

from stores.errors import StoreMisconfigured
from stores.fitness import Finding, judge_store
from stores.fleet import SCHEMA
from stores.store import Store


async def preflight(store: Store, *, workers: int = 1) -> list[Finding]:
    """Everything that is wrong, worst first. A command that this user may not send is not held against it."""
    # How fast it is just now says nothing at a start, when all of a fleet's workers ask at once.
    findings = await judge_store(store.client, pings=0, workers=workers)
    findings += judge_schema(await store.fleet.schema())
    wrong = [finding for finding in findings if finding.level in ("warn", "bad")]
    return sorted(wrong, key=lambda finding: not finding.refuses)


def judge_schema(version: int) -> list[Finding]:
    """Whether this release can read what is in the namespace."""
    if version <= SCHEMA:
        return []
    found = f"this namespace was written by a newer release (form {version}; this one knows {SCHEMA})"
    todo = "Run that release, or a later one, or give this one a namespace of its own."
    return [Finding("schema", "bad", found, todo, refuses=True)]


async def require_fit(store: Store) -> list[Finding]:
    """Makes the namespace this release's, and tells what to look at; raises StoreMisconfigured where no worker may
    start."""
    findings = await preflight(store)
    refusals = [finding for finding in findings if finding.refuses]
    if not refusals:
        # Two releases can start at once: the script decides which of them may.
        refusals = judge_schema(await store.fleet.take_namespace())
    if refusals:
        raise StoreMisconfigured(" ".join(str(finding) for finding in refusals))
    return findings
