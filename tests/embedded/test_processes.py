"""The processes of a server: how they start, and that a stop loses nobody."""

from __future__ import annotations

import datetime
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.embedded.processes import children, is_running, wait_until

STORE: dict[str, Any] = {"redis": "redis://127.0.0.1:1/0"}  # the toy never calls it


class Running:
    def __init__(self, process: subprocess.Popen[str], folder: Path, facts: dict[str, Any]) -> None:
        self.process, self.folder, self.facts = process, folder, facts
        self.url = str(facts["url"])

    def get(self, path: str = "/", **options: Any) -> httpx.Response:
        """One request on a connection of its own."""
        with httpx.Client(timeout=15, **options) as client:
            return client.get(f"{self.url}{path}")

    def workers(self) -> set[int]:
        return {child for child in children(self.process.pid) if session(child) == session(self.process.pid)}

    def exit_code(self) -> int:
        return self.process.wait(15)

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", int(self.facts["port"]))) == 0


def session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -pid  # gone meanwhile: in no session that anybody is in


@contextmanager
def toy(*, drain: float = 5.0, **flags: Any) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="ns-") as path:
        folder = Path(path)
        (folder / "endpoints.yml").write_text(f"a2a_server:\n  description: toy\n  drain_seconds: {drain}\n")
        given = {"port": 0, "workers": 2, "endpoints": str(folder / "endpoints.yml"), **flags}
        command = [sys.executable, "-m", "tests.embedded.toy", path, json.dumps(given)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        running = None
        try:
            ready, _, _ = select.select([process.stdout], [], [], 15)
            line = process.stdout.readline() if ready else ""
            running = Running(process, folder, json.loads(line or '{"url": "", "port": 0}'))
            if line:
                wait_until(lambda: len(list(folder.glob("startup-*"))) == given["workers"], "the workers have started")
            yield running
        finally:
            left = running.workers() if running and is_running(process.pid) else set()
            for pid in (process.pid, *left):
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def held(server: Running) -> Iterator[Any]:
    """A request that is being worked on, and ends when the file `release` is there."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get, "/hold")
        wait_until((server.folder / "held").exists, "the request is being worked on")
        try:
            yield answer
        finally:
            (server.folder / "release").touch()


def test_a_drain_answers_old_and_new_requests_and_ends_with_0() -> None:
    with toy(**STORE) as server, held(server) as answer:
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.get().json()["draining"], "a draining worker answers new connections")
        for _ in range(20):
            response = server.get()
            assert response.status_code == 200
            assert response.headers["connection"] == "close"
        assert not answer.done()

        (server.folder / "release").touch()

        assert answer.result(15).status_code == 200
        assert server.exit_code() == 0
        assert not server.is_listening()
        assert [path.read_text() for path in server.folder.glob("drained-*")] == ["5.0", "5.0"]


def test_no_connection_is_lost_when_one_worker_has_drained_before_the_other() -> None:
    with toy(**STORE) as server, held(server), ThreadPoolExecutor(4) as pool:
        stop = threading.Event()

        def hammer() -> int:
            answered = 0
            while not stop.is_set():
                assert server.get().status_code == 200  # a connection of its own each time
                answered += 1
            return answered

        try:
            clients = [pool.submit(hammer) for _ in range(4)]
            wait_until(lambda: server.get().status_code == 200, "it answers")
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: len(server.workers()) == 1, "one worker is gone")
        finally:
            stop.set()
        assert all(client.result(15) for client in clients)


def test_an_idle_server_stops_at_once() -> None:
    with toy(**STORE) as server:
        wait_until(lambda: server.get().status_code == 200, "it answers")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(4) == 0


def test_a_drain_has_an_end() -> None:
    with toy(**STORE, drain=0.5, workers=1) as server, held(server) as answer:
        server.process.send_signal(signal.SIGTERM)
        # drain_seconds, 2 s of grace for the application, 5 s for open connections
        assert server.process.wait(15) == 0
        assert answer.result(5).status_code == 500
        assert server.process.stderr is not None
        assert "closes before its work has ended" in server.process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_quick_stop_gives_the_application_no_time(number: signal.Signals) -> None:
    with toy(**STORE) as server:
        server.process.send_signal(number)
        assert server.process.wait(5) == 0
        assert [path.read_text() for path in server.folder.glob("drained-*")] == ["0.0", "0.0"]


def test_a_second_signal_ends_a_drain() -> None:
    with toy(**STORE, workers=1) as server, held(server):
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.get().json()["draining"], "it drains")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(8) == 0


def test_an_application_that_fails_to_drain_is_closed_all_the_same() -> None:
    with toy(**STORE) as server:
        wait_until(lambda: server.get().status_code == 200, "it answers")
        (server.folder / "break").touch()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 0
        assert server.process.stderr is not None
        assert "the toy is broken" in server.process.stderr.read()


def test_both_workers_answer_and_a_killed_one_is_replaced() -> None:
    with toy(**STORE) as server:
        first = server.workers()
        wait_until(lambda: server.get().json()["pid"] in first, "a worker answers")
        victim = next(iter(first))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(server.workers() - {victim}) == 2, "another one runs")
        server.process.send_signal(signal.SIGTERM)
        assert server.exit_code() == 0


def test_a_killed_master_leaves_neither_workers_nor_engine_nor_port() -> None:
    with tempfile.TemporaryDirectory(prefix="ns-") as data, toy(data_dir=data) as server, held(server) as answer:
        # The watchdog is in a session of its own, and the engine is its child.
        (watchdog,) = set(children(server.process.pid)) - server.workers()
        processes = {*server.workers(), watchdog, *children(watchdog)}
        assert len(processes) == 4

        os.kill(server.process.pid, signal.SIGKILL)

        wait_until(lambda: not server.is_listening(), "the port is free")
        assert is_running(watchdog)
        assert not answer.done()
        (server.folder / "release").touch()
        assert answer.result(15).status_code == 200  # the work in hand is finished before the engine goes
        wait_until(lambda: not any(map(is_running, processes)), "nothing runs any more")


def test_the_engine_is_stopped_last() -> None:
    with tempfile.TemporaryDirectory(prefix="ns-") as data, toy(data_dir=data) as server:
        store = str(server.facts["store"])
        assert store == f"unix://{data}/engine.sock"
        assert server.get().json()["store"] == store
        with held(server) as answer:
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: server.get().json()["draining"], "it drains")
            assert Path(data, "engine.sock").exists()
            (server.folder / "release").touch()
            assert answer.result(15).status_code == 200
        assert server.exit_code() == 0
        assert not Path(data, "engine.sock").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_lost_watchdog_is_replaced() -> None:
    with tempfile.TemporaryDirectory(prefix="ns-") as data, toy(data_dir=data) as server:
        (watchdog,) = set(children(server.process.pid)) - server.workers()
        os.kill(watchdog, signal.SIGKILL)

        def replaced() -> bool:
            return any(children(child) for child in set(children(server.process.pid)) - {watchdog})

        wait_until(replaced, "another watchdog has an engine")
        server.process.send_signal(signal.SIGTERM)
        assert server.exit_code() == 0


def test_a_folder_in_use_stops_the_start() -> None:
    with tempfile.TemporaryDirectory(prefix="ns-") as data, toy(data_dir=data) as first:
        with toy(data_dir=data) as second:
            assert second.exit_code() == 1
            assert second.process.stderr is not None
            error = second.process.stderr.read()
        assert "validation.a2a_server.store_not_started" in error
        assert f"process id {first.process.pid}" in error
        assert "Traceback" not in error


def test_a_taken_port_is_named() -> None:
    with toy(**STORE) as first, toy(**STORE, port=first.facts["port"]) as second:
        assert second.exit_code() == 1
        assert second.process.stderr is not None
        error = second.process.stderr.read()
        assert f"Port {first.facts['port']} on 127.0.0.1 is taken" in error
        assert "--port" in error
        assert "Traceback" not in error


@pytest.mark.parametrize("interface", ["192.0.2.1", "no.such.host.invalid"])
def test_an_interface_of_another_machine_is_refused(interface: str) -> None:
    with toy(**STORE, interface=interface) as server:
        assert server.exit_code() == 1
        assert server.process.stderr is not None
        assert "validation.a2a_server.interface_invalid at --interface" in server.process.stderr.read()


def test_a_worker_that_can_not_boot_stops_the_server() -> None:
    with tempfile.TemporaryDirectory(prefix="ns-") as path:
        Path(path, "refuse").touch()
        command = [sys.executable, "-m", "tests.embedded.toy", path, json.dumps({**STORE, "port": 0})]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 3
    assert "the toy can't be made" in ended.stderr


def test_it_speaks_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with toy(**STORE, ssl_certificate=str(certificate), ssl_keyfile=str(key)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert server.get(verify=False).json()["scheme"] == "https"


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    paths = folder / "server.pem", folder / "server-key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
