"""A real nginx before replicas, with the very configuration that is shipped."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.engines import free_port

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deploy" / "nginx.conf"
START_SECONDS = 15.0
# Debian keeps it in a folder that is not on every user's path.
PLACES = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/homebrew/bin")


def nginx_binary() -> str:
    """nginx; where there is none the test is skipped on a laptop and fails in CI."""
    found = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("nginx is not installed, and CI must not skip what is proved behind it")
        pytest.skip("nginx is not installed")
    return found


def configured(ports: Sequence[int], listen: int, folder: Path) -> str:
    """The shipped file with its upstream and listen lines replaced, and nothing else."""
    text = SHIPPED.read_text()
    servers = "\n        ".join(f"server 127.0.0.1:{port}\\1;" for port in ports)
    text, upstreams = re.subn(r"server nonstick:5005((?: [a-z_]+=\w+)*);", servers, text)
    # Its compiled-in folders may not be ours to write.
    temporary = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text, listens = re.subn(r"listen 5005;", f"listen 127.0.0.1:{listen}; {temporary}", text)
    assert (upstreams, listens) == (1, 1), "deploy/nginx.conf has other upstream or listen lines than this test knows"
    return text


@contextmanager
def nginx(ports: Sequence[int], folder: Path) -> Iterator[str]:
    """The URL of an nginx that spreads over these ports; it is gone at the end."""
    binary = nginx_binary()
    listen = free_port()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # as root its worker is another user
    config = folder / "nginx.conf"
    config.write_text(configured(ports, listen, folder))
    log_path = folder / "nginx.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [binary, "-p", str(folder), "-c", str(config), "-g", f"daemon off; pid {folder}/nginx.pid;"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_listening(process, listen, log_path)
        yield f"http://127.0.0.1:{listen}"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _wait_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nginx does not listen:\n{log.read_text(errors='replace')}")
