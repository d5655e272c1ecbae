"""The embedded engine: it starts with its server, keeps the data, and is gone with its last holder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from stores.embedded import EmbeddedEngine, EmbeddedEngineError, make_private, socket_address
from stores.watchdog import answers
from tests.embedded.processes import children, is_running, wait_until

# Starts an engine as a server does, forks as many workers as it is told, prints their ids, and waits for the end.
HOLDER = textwrap.dedent("""
    import os, signal, sys
    from stores.embedded import EmbeddedEngine
    engine = EmbeddedEngine(sys.argv[1])
    print(engine.start(), flush=True)
    workers = []
    for _ in range(int(sys.argv[2])):
        if not (pid := os.fork()):
            engine.stop()  # not the owner: must do nothing
            signal.pause()
        workers.append(pid)
    print(*workers, flush=True)
    signal.pause()
""")


@contextmanager
def holder(folder: Path, workers: int = 0) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    command = [sys.executable, "-c", HOLDER, str(folder), str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, pids = process.stdout.readline().strip(), process.stdout.readline().split()
    try:
        yield process, url, [int(pid) for pid in pids]
    finally:
        for pid in (process.pid, *map(int, pids)):
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def engine_pid(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        return int(client.info("server")["process_id"])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ns-") as path:
        yield Path(path) / "data"


def test_the_engine_is_private_and_keeps_every_write(folder: Path) -> None:
    with EmbeddedEngine(folder) as url, redis.Redis.from_url(url, decode_responses=True) as client:
        assert url == f"unix://{folder}/engine.sock"
        assert client.config_get("port")["port"] == "0"
        assert client.config_get("appendonly")["appendonly"] == "yes"
        assert client.config_get("appendfsync")["appendfsync"] == "everysec"
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert os.getsid(engine_pid(url)) != os.getsid(0)
        assert folder.stat().st_mode & 0o077 == 0


def test_data_survives_and_nothing_is_left_behind(folder: Path) -> None:
    engine = EmbeddedEngine(folder)
    with redis.Redis.from_url(engine.start()) as client:
        client.set("a", "1")
        pid = int(client.info("server")["process_id"])
    engine.stop()

    assert not is_running(pid)
    assert not (folder / "engine.sock").exists()
    with redis.Redis.from_url(engine.start()) as client:
        assert client.get("a") == b"1"
    engine.stop()
    engine.stop()


def test_a_folder_in_use_is_refused_with_its_holder(folder: Path) -> None:
    with EmbeddedEngine(folder) as url:
        with pytest.raises(EmbeddedEngineError, match=rf"process id {os.getpid()}\b.*--data-dir"):
            EmbeddedEngine(folder).start()
        assert engine_pid(url)


def test_an_engine_is_started_once(folder: Path) -> None:
    engine = EmbeddedEngine(folder)
    with engine, pytest.raises(EmbeddedEngineError, match="already"):
        engine.start()


def test_a_killed_master_leaves_the_engine_to_its_workers_and_no_longer(folder: Path) -> None:
    with holder(folder, workers=2) as (master, url, workers):
        engine = engine_pid(url)
        os.kill(master.pid, signal.SIGKILL)
        master.wait()
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: not is_running(workers[0]), "the first worker is gone")
        assert engine_pid(url) == engine

        os.kill(workers[1], signal.SIGKILL)

        wait_until(lambda: not is_running(engine), "the engine is gone")
        assert not (folder / "engine.sock").exists()


def test_a_folder_can_be_used_right_after_its_holder_was_killed(folder: Path) -> None:
    with holder(folder) as (master, url, _):
        with redis.Redis.from_url(url) as client:
            client.set("a", "1")
        os.kill(master.pid, signal.SIGKILL)
        master.wait()
        with EmbeddedEngine(folder) as again, redis.Redis.from_url(again) as client:
            assert client.get("a") == b"1"


def test_a_crashed_engine_is_started_again_with_its_data(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with EmbeddedEngine(folder) as url:
        first = engine_pid(url)
        for _ in range(2):  # at once, and after a pause
            with redis.Redis.from_url(url) as client:
                client.incr("a")
            pid = engine_pid(url)
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not is_running(pid), "the engine is dead")  # type: ignore[misc]
            wait_until(lambda: answers(str(folder / "engine.sock")), "an engine answers again")
        assert engine_pid(url) != first
        with redis.Redis.from_url(url) as client:
            assert client.get("a") == b"2"
    assert "ended with signal 9" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_watchdog_leaves_no_engine(folder: Path) -> None:
    engine = EmbeddedEngine(folder)
    pid = engine_pid(engine.start())
    assert engine.is_watched()
    (watchdog,) = [child for child in children(os.getpid()) if pid in children(child)]

    os.kill(watchdog, signal.SIGKILL)

    wait_until(lambda: not is_running(pid), "the engine is gone")
    assert not engine.is_watched()
    engine.stop()
    with EmbeddedEngine(folder) as url:
        assert engine_pid(url)


def test_a_watchdog_that_is_terminated_stops_the_engine(folder: Path) -> None:
    engine = EmbeddedEngine(folder)
    pid = engine_pid(engine.start())
    (watchdog,) = [child for child in children(os.getpid()) if pid in children(child)]
    os.kill(watchdog, signal.SIGTERM)
    wait_until(lambda: not is_running(pid), "the engine is gone")
    engine.stop()


def test_a_long_path_gets_a_short_socket(folder: Path) -> None:
    deep = folder / ("x" * 60) / ("y" * 60)
    with EmbeddedEngine(deep) as url:
        address = url.removeprefix("unix://")
        assert len(address) <= 103
        assert not address.startswith(str(folder))
        assert engine_pid(url)
        assert (deep / "appendonlydir").is_dir()
        with pytest.raises(EmbeddedEngineError, match="in use"):
            EmbeddedEngine(deep).start()
    assert socket_address(deep) == address
    Path(address).parent.rmdir()


def test_a_path_with_odd_characters_works(folder: Path) -> None:
    with EmbeddedEngine(folder / "a b%é?#") as url:
        assert engine_pid(url)


def test_somebody_elses_folder_is_no_place_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    for name in ("open", "link"):
        with pytest.raises(EmbeddedEngineError, match="not ours alone"):
            make_private(tmp_path / name)


def test_a_folder_that_can_not_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedEngineError, match="--data-dir"):
        EmbeddedEngine(tmp_path / "file" / "data").start()


def test_an_engine_that_can_not_read_its_data_says_why(folder: Path) -> None:
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")

    with pytest.raises(EmbeddedEngineError, match=r"ended with exit code 1 at its start(.*\n)+.*manifest"):
        EmbeddedEngine(folder).start()

    (folder / "appendonlydir" / "appendonly.aof.manifest").unlink()
    with EmbeddedEngine(folder) as url:
        assert engine_pid(url)


def test_an_engine_that_is_loading_its_data_does_not_answer_yet(folder: Path) -> None:
    folder.mkdir()
    address = str(folder / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(5)
        replies = [b"-LOADING the dataset\r\n", b"+PONG\r\n"]

        def serve() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(64)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert [answers(address), answers(address)] == [False, True]
        thread.join(5)
    assert not answers(address)
