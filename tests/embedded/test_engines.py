"""The tests' own engines do what the other tests take for granted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.embedded.processes import is_running, wait_until
from tests.support.engines import EngineName, engine


@pytest.mark.parametrize("name", ["valkey", "redis6"])
@pytest.mark.parametrize("port", [None, 0])
def test_data_survives_a_restart_and_a_kill(name: EngineName, port: int | None) -> None:
    with engine(name, port=port) as server:
        url, first = server.url, server.pid
        with redis.Redis.from_url(url) as client:
            client.set("a", "1")
            server.restart()
            assert server.url == url
            assert server.pid != first
        with redis.Redis.from_url(url) as client:
            assert client.get("a") == b"1"
            client.set("b", "2")
        server.kill()
        server.start()
        with redis.Redis.from_url(url) as client:
            assert client.get("b") == b"2"
        last = server.pid
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


def test_the_engines_are_the_newest_and_the_oldest_that_are_promised() -> None:
    with engine("valkey") as server, redis.Redis.from_url(server.url) as client:
        assert client.info("server")["valkey_version"].startswith("9.")
    with engine("redis6") as server, redis.Redis.from_url(server.url) as client:
        assert client.info("server")["redis_version"].startswith("6.2.")


def test_options_of_the_server_win_over_the_defaults() -> None:
    args = ("--maxmemory", "8mb", "--appendonly", "no")
    with engine("valkey", args=args) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory")["maxmemory"] == str(8 * 1024 * 1024)
        assert client.config_get("appendonly")["appendonly"] == "no"


def test_a_killed_test_run_leaves_no_engine() -> None:
    code = "import time; from tests.support.engines import engine\n"
    code += "with engine() as e: print(e.pid, e.folder, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        run.kill()
    wait_until(lambda: not is_running(int(pid)), "the engine is gone")
    wait_until(lambda: not Path(folder).exists(), "its folder is gone")
