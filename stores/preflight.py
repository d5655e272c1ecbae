"""Is this Redis fit to keep promises? Asked once at each worker's start, and by whoever wants to know before.

A refusal is something that breaks a promise without a word; a warning is something that may, or that the operator may
have meant. Each says what to do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from stores.client import POOL_SIZE, Client
from stores.errors import StoreDenied, StoreError, StoreMisconfigured

OLDEST = (6, 2)
# A worker's pool, its pipelining connection and its pub/sub connection.
CONNECTIONS = POOL_SIZE + 2
# Task ids carry their worker's time and events Redis's: beyond this, people who compare them are led astray.
CLOCK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about the store that is not as it should be."""

    severity: Literal["refuse", "warn"]
    code: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"


async def preflight(client: Client) -> list[Finding]:
    """What is wrong with the store, worst first. A command that this user may not send is not held against it."""
    began = time.time()
    server = await _info(client, "server")
    seconds, micros = await client.call("TIME")
    ended = time.time()
    memory, clients, keeping, role = [
        await _info(client, section) for section in ("memory", "clients", "persistence", "replication")
    ]
    findings = [
        *_version(str(server.get("redis_version", ""))),
        *_eviction(str(memory.get("maxmemory_policy", "noeviction")), int(memory.get("maxmemory", 0))),
        *_role(str(role.get("role", "master"))),
        *_persistence(int(keeping.get("aof_enabled", 1)), await _setting(client, "save")),
        *_connections(
            int(clients.get("maxclients") or await _setting(client, "maxclients") or 0),
            int(clients.get("connected_clients", 0)),
        ),
        *_clock(int(seconds) + int(micros) / 1e6, began, ended),
    ]
    return sorted(findings, key=lambda finding: finding.severity != "refuse")


async def require_fit(client: Client) -> list[Finding]:
    """The warnings; raises StoreMisconfigured where there is more than that."""
    findings = await preflight(client)
    refusals = [finding for finding in findings if finding.severity == "refuse"]
    if refusals:
        raise StoreMisconfigured(" ".join(str(finding) for finding in refusals))
    return findings


def _version(text: str) -> list[Finding]:
    numbers = tuple(int(word) for word in text.split(".")[:2] if word.isdigit())
    if len(numbers) < 2 or numbers >= OLDEST:
        return []
    hint = "Use Redis 6.2 or later, or Valkey."
    return [Finding("refuse", "version", f"This is Redis {text}, which lacks commands that scripts need.", hint)]


def _eviction(policy: str, limit: int) -> list[Finding]:
    if policy == "noeviction":
        return []
    message = f"maxmemory-policy is {policy}: a full Redis would throw away conversations without a word."
    hint = "Set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in its configuration)."
    # Without a limit nothing is ever evicted, until somebody sets one.
    return [Finding("refuse" if limit else "warn", "eviction", message, hint)]


def _role(role: str) -> list[Finding]:
    if role == "master":
        return []
    hint = "Name the primary, or the Sentinels that know it."
    return [Finding("warn", "replica", "This is a replica, which takes no writes.", hint)]


def _persistence(append_only: int, save: str | None) -> list[Finding]:
    if append_only:
        return []
    hint = "Set appendonly yes; appendfsync everysec loses a second at most, always loses nothing."
    if save == "":
        return [Finding("warn", "persistence", "Nothing is written to disk: a restart loses everything.", hint)]
    return [Finding("warn", "persistence", "Only snapshots are written: a restart loses what came after one.", hint)]


def _connections(most: int, used: int) -> list[Finding]:
    if not most or most - used >= CONNECTIONS:
        return []
    message = f"Redis takes {most} connections and has {used}; one worker may need {CONNECTIONS}."
    return [Finding("warn", "connections", message, "Raise maxclients, and the limit of open files with it.")]


def _clock(theirs: float, began: float, ended: float) -> list[Finding]:
    apart = max(began - theirs, theirs - ended, 0.0)
    if apart <= CLOCK_SECONDS:
        return []
    message = f"The clocks of this machine and of Redis are {apart:.0f} s apart."
    return [Finding("warn", "clock", message, "Set both by NTP; promises hold all the same, times shown mix the two.")]


async def _info(client: Client, section: str) -> dict[str, Any]:
    try:
        told = await client.call("INFO", section)
    except StoreDenied:
        return {}
    return dict(told) if isinstance(told, dict) else {}


async def _setting(client: Client, name: str) -> str | None:
    """A setting, None where it can't be seen: managed services forbid CONFIG."""
    try:
        told = await client.call("CONFIG", "GET", name)
    except StoreError:
        return None
    facts = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=False))
    value = facts.get(name)
    return None if value is None else str(value)
