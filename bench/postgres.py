"""A PostgreSQL of the run's own, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.children import Child, NotStarted, free_port

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
INIT_SECONDS = 60.0


def binaries() -> Path:
    """The folder of the newest one; raises NotStarted where there is none."""
    found = shutil.which("postgres")
    if found:
        return Path(found).resolve().parent
    folders = [folder for place in PLACES for folder in Path("/").glob(place[1:]) if (folder / "postgres").exists()]
    if not folders:
        raise NotStarted("PostgreSQL is not installed")
    return max(folders, key=lambda folder: [int(part) for part in folder.parent.name.split("-")[-1].split(".")])


@contextmanager
def postgres() -> Iterator[tuple[Child, str]]:
    """The server and its address for SQLAlchemy."""
    programs = binaries()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="nb-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        data, port = folder / "data", free_port()
        init = [str(programs / "initdb"), "-D", str(data), "-U", "bench", "--auth=trust", "--encoding=UTF8"]
        try:
            subprocess.run(
                init,
                user=user,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INIT_SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise NotStarted(f"initdb: {error.output.decode(errors='replace')}") from None
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), "-h", "127.0.0.1"]
        # A killed one would leave its shared memory behind; this ends it at once, too.
        child = Child(command, folder / "log", cwd=folder, user=user, end=signal.SIGQUIT)
        try:
            child.wait_port(port)
            yield child, f"postgresql+asyncpg://bench@127.0.0.1:{port}/postgres"
        finally:
            child.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str | None:
    """It refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise NotStarted("PostgreSQL does not run as root, and there is no other user for it")
