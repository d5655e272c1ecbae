"""From end to end, as an operator starts it: HTTPS, real tokens and keys, and only the proxies that were named."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.auth.support import SECRET, Keys, make_keys, private_pem, public_file, token
from tests.embedded.test_processes import STORE, toy
from tests.push.certificates import self_signed
from tests.support.engines import Engine, engine

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())", "run"]
START_SECONDS = 40.0


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey", port=0) as running:
        yield running


@pytest.fixture(scope="module")
def keys() -> Keys:
    return make_keys()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, keyfile = folder / "server.pem", folder / "server-key.pem"
    certificate.write_bytes(self_signed("127.0.0.1", key))
    keyfile.write_bytes(private_pem(key))
    return certificate, keyfile


@contextmanager
def run(store: Engine, folder: Path, block: str, *flags: str, **environ: str) -> Iterator[tuple[str, str]]:
    """`nonstick run` with this settings block; its address and what it printed at start."""
    settings = folder / "endpoints.yml"
    settings.write_text(f"a2a_server:\n  description: tried from outside\n  namespace: e{uuid4().hex[:8]}\n{block}")
    command = [*COMMAND, "--agent", "examples.echo:Echo", "--endpoints", str(settings), "--redis", store.url]
    process = subprocess.Popen(
        [*command, "--port", "0", "--workers", "1", *flags],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    try:
        shown = ""
        for line in process.stdout:
            shown += line
            if "Ctrl-C" in line:
                break
        listening = re.search(r"listening\s+(\S+)", shown)
        assert listening, process.communicate()[1]
        yield listening[1], shown
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def client(url: str, certificate: Path | None = None, **headers: str) -> httpx.Client:
    verify: Any = ssl.create_default_context(cafile=str(certificate)) if certificate else True
    # The first answer may wait for the worker, which starts after the banner's master.
    return httpx.Client(base_url=url, verify=verify, headers=headers, timeout=20, trust_env=False)


def send(http: httpx.Client) -> httpx.Response:
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return http.post("/", json=body, headers={"A2A-Version": "1.0"})


def assert_guarded(url: str, certificate: Path | None, good: dict[str, str], bad: dict[str, str]) -> dict[str, Any]:
    """Who has the right credentials is served, who has not is not; the card as the former sees it."""
    for headers in ({}, bad):
        with client(url, certificate, **headers) as stranger:
            refused = send(stranger)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32000)
            assert "www-authenticate" in refused.headers
            assert stranger.get("/.well-known/agent-card.json").status_code == 401
            assert stranger.get("/healthz").status_code == 200
    with client(url, certificate, **good) as caller:
        assert send(caller).json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        card: dict[str, Any] = caller.get("/.well-known/agent-card.json").json()
    return card


def test_https_with_rs256_tokens(real_engine: Engine, tmp_path: Path, keys: Keys, pair: tuple[Path, Path]) -> None:
    public_file(tmp_path, keys.rsa, "jwt.pem")
    block = "  auth: {type: bearer, jwt: {algorithm: RS256, public_key_path: jwt.pem, issuer: us, audience: agent}}\n"
    flags = ["--ssl-certificate", str(pair[0]), "--ssl-keyfile", str(pair[1])]
    good = token(keys.rsa, "RS256", iss="us", aud="agent")
    other = token(keys.rsa, "RS256", iss="them", aud="agent")
    with run(real_engine, tmp_path, block, *flags) as (url, shown):
        assert url.startswith("https://127.0.0.1:")
        assert "Authorization: Bearer $TOKEN" in shown
        card = assert_guarded(url, pair[0], {"Authorization": f"Bearer {good}"}, {"Authorization": f"Bearer {other}"})
        assert card["url"].rstrip("/") == url
        assert all(one["url"].startswith("https://") for one in card["supportedInterfaces"])
        assert list(card["securitySchemes"]) == ["bearer"]
        with pytest.raises(httpx.HTTPError), client(url.replace("https", "http")) as plain:
            plain.get("/healthz")


def test_hs256_tokens_behind_a_proxy_that_speaks_tls(real_engine: Engine, tmp_path: Path) -> None:
    block = (
        "  url: https://agent.example/a2a\n"
        "  auth: {type: bearer, caller_claim: client, jwt: {algorithm: HS256, secret: '${JWT_SECRET}'}}\n"
    )
    good, bad = token(client="shop"), token("not the secret " * 4, client="shop")
    with run(real_engine, tmp_path, block, JWT_SECRET=SECRET) as (url, _):
        card = assert_guarded(url, None, {"Authorization": f"Bearer {good}"}, {"Authorization": f"Bearer {bad}"})
        assert url.startswith("http://")
        assert card["url"] == "https://agent.example/a2a"
        with client(url, Authorization=f"Bearer {token()}") as unnamed:
            assert send(unnamed).status_code == 401


def test_api_keys_and_a_bounded_head(real_engine: Engine, tmp_path: Path) -> None:
    listed = {"id": "shop", "name": "The shop", "sha256": sha256(b"open sesame").hexdigest()}
    block = f"  auth: {{type: api_key, public_card: false, api_keys: [{json.dumps(listed)}]}}\n"
    with run(real_engine, tmp_path, block) as (url, shown):
        assert "X-Api-Key: $API_KEY" in shown
        card = assert_guarded(url, None, {"X-Api-Key": "open sesame"}, {"X-Api-Key": "open barley"})
        assert list(card["securitySchemes"]) == ["apiKey"]
        with client(url) as http:
            assert http.get("/healthz", headers={"X-Long": "a" * 40_000}).status_code == 431
        assert first_line_before_the_body(url) == b"HTTP/1.1 401 Unauthorized"


def first_line_before_the_body(url: str) -> bytes:
    """What a stranger is told who announces a body and never sends it."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10) as raw:
        raw.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        return raw.recv(4096).partition(b"\r\n")[0]


def test_an_open_public_bind_is_warned_of() -> None:
    """Asked of `check`, which shows what `run` shows and opens nothing."""
    asked = [*COMMAND[:-1], "check", "--agent", "examples.echo:Echo", "--interface", "0.0.0.0", "--embedded"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=START_SECONDS, check=True)
    assert "validation.a2a_server.open_endpoint" in done.stdout


@pytest.mark.parametrize(
    ("trusted", "believed"), [("127.0.0.1", True), ("127.0.0.0/8", True), ("10.0.0.0/8", False), ("192.0.2.1", False)]
)
def test_forwarded_headers_are_believed_from_named_proxies_only(tmp_path: Path, trusted: str, believed: bool) -> None:
    settings = tmp_path / "endpoints.yml"
    settings.write_text(f"a2a_server: {{description: x, forwarded_allow_ips: ['{trusted}']}}\n")
    with toy(**STORE, workers=1, endpoints=str(settings)) as server:
        seen = server.get(headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}).json()
    assert seen["scheme"] == ("https" if believed else "http")
