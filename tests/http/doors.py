"""A whole server in the test's own process, behind each kind of door, and callers who may come in.

No socket is opened: requests go straight into the application, so a test can also be the network.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from server.app import create_app
from server.config.settings import Settings
from tests.auth.support import SECRET, Keys, public_file, token
from tests.support.agents import Ledger, Puppet
from tests.support.client import Speaker, Wire
from tests.support.engines import Engine

BASE = "http://agent.test"
DOORS = ("HS256", "RS256", "api_key")


@dataclass(frozen=True)
class Door:
    """One way to come in: the settings that ask for it, and the header that proves a caller."""

    kind: str
    keys: Keys
    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        if self.kind == "api_key":
            entries = [{"id": name, "sha256": sha256(f"key of {name}".encode()).hexdigest()} for name in self.people]
            return {"type": "api_key", "api_keys": entries}
        if self.kind == "HS256":
            return {"type": "bearer", "jwt": {"algorithm": "HS256", "secret": SECRET}}
        path = public_file(self.folder, self.keys.rsa)
        return {"type": "bearer", "jwt": {"algorithm": "RS256", "public_key_path": str(path)}}

    @property
    def people(self) -> tuple[str, ...]:
        return ("alice", "mallory")

    @property
    def scheme(self) -> str:
        return "ApiKey" if self.kind == "api_key" else "Bearer"

    def headers(self, who: str = "alice") -> dict[str, str]:
        if self.kind == "api_key":
            return {"X-Api-Key": f"key of {who}"}
        return {"Authorization": f"Bearer {token(self.keys.signing(self.kind), self.kind, sub=who)}"}

    def wrong(self) -> dict[str, str]:
        if self.kind == "api_key":
            return {"X-Api-Key": "key of nobody"}
        other = "other " * 20 if self.kind == "HS256" else self.keys.rsa_other
        return {"Authorization": f"Bearer {token(other, self.kind)}"}


class House:
    """A running application and the folder of its agent."""

    def __init__(self, app: FastAPI, folder: Path) -> None:
        self.app = app
        self.ledger = Ledger(folder)

    def client(self, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=BASE, headers=headers, timeout=20)

    @asynccontextmanager
    async def speaker(self, headers: dict[str, str] | None = None, wire: Wire = "1.0") -> AsyncIterator[Speaker]:
        async with self.client(headers) as http:
            yield Speaker(http, BASE, wire)


@asynccontextmanager
async def serving(engine: Engine, folder: Path, **own: Any) -> AsyncIterator[House]:
    """One worker with a namespace of its own."""
    values: dict[str, Any] = {"redis_url": engine.url, "namespace": f"h{uuid.uuid4().hex[:8]}", "url": BASE, **own}
    app = create_app(Settings(**values), Puppet(folder))
    async with app.router.lifespan_context(app):
        yield House(app, folder)
