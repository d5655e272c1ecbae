"""The benchmark measures what it says: wrong answers void a run, and CPU goes to whom it belongs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import measure, page, results, table
from bench.children import ROOT, Child, NotStarted, free_port
from bench.plot import plot
from bench.results import Results
from bench.subjects import Subject
from bench.usage import cpu_ns, tree

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the benchmark reads other processes as Linux shows them"
)

Answer = Callable[[dict[str, Any]], bytes]


def task(text: str, state: str = "TASK_STATE_COMPLETED") -> dict[str, Any]:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return {"id": "t", "contextId": "c", "status": {"state": state, "message": said}}


def text_of(asked: dict[str, Any]) -> str:
    return str(asked["params"]["message"]["parts"][0]["text"])


def echo(asked: dict[str, Any]) -> bytes:
    return json.dumps({"result": {"task": task(f"echo: {text_of(asked)}")}}).encode()


def one_chunk_short(asked: dict[str, Any]) -> bytes:
    chunks = int(text_of(asked).split()[1]) - 1
    events: list[dict[str, Any]] = [
        {"artifactUpdate": {"artifact": {"parts": [{"text": f"chunk {number} "}]}}} for number in range(chunks)
    ]
    events.append({"statusUpdate": {"taskId": "t", **task(f"echo: {text_of(asked)}")}})
    return b"".join(b"data: " + json.dumps({"result": event}).encode() + b"\n\n" for event in events)


@contextmanager
def serving(answer: Answer) -> Iterator[Subject]:
    """A server in this process that says whatever it is told to."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Subject("test", [server.server_address[1]], [])
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def turns(subject: Subject) -> dict[str, Any]:
    return measure.turns(subject, seconds=0.3, connections=2)


def test_right_answers_are_counted() -> None:
    with serving(echo) as subject:
        found = measure.turns(subject, seconds=1.0, connections=2)
    assert found["turns_per_s"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: json.dumps({"result": {"task": task("echo: something else")}}).encode(),
        lambda asked: json.dumps({"result": {"task": task(f"echo: {text_of(asked)}", "TASK_STATE_WORKING")}}).encode(),
        lambda asked: json.dumps({"error": {"code": -32603, "message": "no"}}).encode(),
        lambda asked: b"not JSON",
    ],
    ids=["another text", "not completed", "an error", "not JSON"],
)
def test_one_wrong_answer_voids_the_run(answer: Answer) -> None:
    wrong_once = iter([True])

    def mostly_right(asked: dict[str, Any]) -> bytes:
        return answer(asked) if next(wrong_once, False) else echo(asked)

    with serving(mostly_right) as subject, pytest.raises(measure.BadRun, match="1 wrong answers"):
        turns(subject)


def test_a_stream_that_lacks_a_chunk_voids_the_run() -> None:
    with serving(one_chunk_short) as subject, pytest.raises(measure.BadRun, match="incomplete stream"):
        measure.streams(subject, count=2, text="chunks 5", seconds=0.1)


def test_cpu_time_is_that_of_the_process_that_used_it() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        # Far more than what both need to start, however long the machine takes to give it.
        deadline = time.monotonic() + 40
        while (used := cpu_ns([busy.pid])) < 5e8:
            assert time.monotonic() < deadline, "the busy process hardly ran"
            time.sleep(0.05)
        assert used >= 3 * cpu_ns([idle.pid])
    finally:
        for process in (busy, idle):
            process.kill()
            process.wait(10)


def test_what_ended_children_used_is_not_forgotten(tmp_path: Path) -> None:
    spin = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
    parent = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {spin!r}]); time.sleep(60)"
    child = Child([sys.executable, "-c", parent], tmp_path / "log")
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (len(tree(child.pid)) > 1 or cpu_ns(child.pids) < 3e8):
            time.sleep(0.05)
        assert tree(child.pid) == [child.pid]
        assert cpu_ns(child.pids) >= 3e8
    finally:
        child.kill()


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", "raise SystemExit('out of paper')"], tmp_path / "log")
    with pytest.raises(NotStarted, match="out of paper"):
        child.wait_port(free_port())


def test_a_child_is_killed_with_what_it_started(tmp_path: Path) -> None:
    command = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    child = Child([sys.executable, "-c", f"{command}; time.sleep(60)"], tmp_path / "log")
    deadline = time.monotonic() + 20
    while len(child.pids) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = child.pids
    assert len(pids) == 2
    child.kill()
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def found() -> Results:
    made = Results(about={**results.about(), "took_s": 61, "peers": {}, "load_after": 1.0})
    made.add("turns", "nonstick", [{"server_us": 100.0, "store_us": 40.0}, {"server_us": 300.0, "store_us": 50.0}])
    made.add("turns", "a <peer> & co", [{"server_us": 1234.5, "store_us": None}])
    return made


def test_rounds_become_medians_and_survive_the_file(found: Results, tmp_path: Path) -> None:
    assert found.of("turns")[0].numbers == {"server_us": 200.0, "store_us": 45.0}
    found.write(tmp_path / "results.json")
    assert results.read(tmp_path / "results.json") == found


def test_the_tables_show_every_row_and_a_dash_for_nothing(found: Results) -> None:
    lines = table.plain(found.of("turns")).splitlines()
    assert lines[0].split("  ")[-1].strip() == "store CPU µs"
    assert lines[2].split()[-2:] == ["1,234", "-"] or lines[2].split()[-2:] == ["1,235", "-"]
    assert table.markdown(found.of("turns")).count("\n") == 3


def test_the_plot_is_well_formed_whatever_names_there_are(found: Results) -> None:
    drawn = ElementTree.fromstring(plot(found))
    assert "a <peer> & co" in [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]


def test_the_page_keeps_what_people_wrote(found: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "PICTURE", tmp_path / "page.svg")
    page.PAGE.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(found, {"turns": "Plain turns."})
    text = page.PAGE.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| nonstick | 200 | 45.0 |" in text
    assert "old" not in text


def test_the_whole_of_it_runs() -> None:
    command = [sys.executable, "-m", "bench", "--only", "turns", "--subject", "nonstick", "bare limit"]
    ran = subprocess.run(
        [*command, "--seconds", "0.3", "--rounds", "1"], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    assert "nonstick" in ran.stdout
    assert "bare limit" in ran.stdout
