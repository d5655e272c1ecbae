"""A stream that breaks is taken up where it broke: nothing is lost, nothing is shown twice."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from server.commands.remote import Cursor, Json, Remote, Unreachable, user_message
from tests.support.fleet import Fleet

BOOKING = "book a cardiology appointment on friday morning"


class Cutter:
    """A proxy that cuts its connections after so many bytes of an answer, then lets everything through."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._port = port
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.made = 0
        self._threads: list[threading.Thread] = []

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.made += 1
            allowed = self._cuts.pop(0) if self._cuts else None
            thread = threading.Thread(target=self._pass, args=(client, allowed))
            thread.start()
            self._threads.append(thread)

    def _pass(self, client: socket.socket, allowed: int | None) -> None:
        server = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        forth = threading.Thread(target=_pump, args=(client, server, None))
        forth.start()
        _pump(server, client, allowed)
        for one in (client, server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        forth.join(30)
        client.close()
        server.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)


def _pump(source: socket.socket, target: socket.socket, allowed: int | None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if allowed is not None:
                target.sendall(data[:allowed])
                allowed -= len(data)
                if allowed <= 0:
                    return
            else:
                target.sendall(data)


@contextmanager
def cutting(port: int, cuts: list[int]) -> Iterator[Cutter]:
    cutter = Cutter(port, cuts)
    accepting = threading.Thread(target=cutter.serve)
    accepting.start()
    try:
        yield cutter
    finally:
        cutter.close()
        accepting.join(30)


def booked(remote: Remote) -> list[Json]:
    message = user_message(BOOKING, str(uuid.uuid4()), None)
    message["parts"].append({"data": {"slots": {"patient_id": "P-1234"}}})
    return list(remote.stream(message, Cursor()))


# Cut before the headers, within the first event, and within later ones.
@pytest.mark.parametrize("cuts", [[1], [300], [900, 700], [1200, 1, 500]])
def test_a_stream_goes_on_after_each_cut(clinic: Fleet, cuts: list[int]) -> None:
    with cutting(clinic.nodes[0].port, list(cuts)) as cutter:
        remote = Remote(cutter.url)
        try:
            events = booked(remote)
        finally:
            remote.close()

    assert cutter.made > len(cuts)
    assert events[-1]["body"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    pieces = [event["body"]["artifact"]["parts"][0]["text"] for event in events if event["kind"] == "artifactUpdate"]
    # A cut before the first event leaves nothing to resume from: the answer is then the task as it ended.
    assert pieces in (["Looking for a free visit ", "on friday morning.", ""], [])
    assert bool(pieces) or events[0]["kind"] == "task"


def test_a_server_that_never_comes_back_is_given_up(clinic: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.commands.remote.PAUSE_SECONDS", 0.001)
    with cutting(clinic.nodes[0].port, [1] * 100) as cutter:
        remote = Remote(cutter.url)
        try:
            with pytest.raises(Unreachable, match="is lost"):
                booked(remote)
        finally:
            remote.close()
