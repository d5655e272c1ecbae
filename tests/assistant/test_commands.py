"""The commands of a flow author as subprocesses: run, check, test, chat, reload."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.assistant.conftest import EXAMPLES
from tests.assistant.tea import TeaRoom
from tests.support.agents import FOLDER_VARIABLE
from tests.support.fleet import ROOT

COMMAND = [sys.executable, "-c", "import sys; from server.cli import main; sys.exit(main())"]
SECONDS = 60.0


def nonstick(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A server started from the command line."""

    url: str
    banner: str
    data: str
    process: subprocess.Popen[str]
    folder: Path


@contextmanager
def running(assistant: Path, folder: Path) -> Iterator[Running]:
    """`nonstick run --assistant`, with its data in a folder of its own whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ns-") as data, (folder / "server.log").open("w") as log:
        environment = {**os.environ, FOLDER_VARIABLE: str(folder)}
        environment.pop("REDIS_URL", None)
        process = subprocess.Popen(
            [*COMMAND, "run", "--assistant", str(assistant), "--port", "0", "--data-dir", data],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            cwd=ROOT,
            env=environment,
        )
        assert process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        banner = ""
        try:
            for line in process.stdout:
                banner += line
                if "Ctrl-C stops" in line:
                    break
            timer.cancel()  # it is up; how long the tests need it is their own matter
            found = re.search(r"listening +(http://\S+)", banner)
            assert found, (folder / "server.log").read_text()
            yield Running(found[1], banner, data, process, folder)
            process.send_signal(signal.SIGINT)
            process.wait(20)
        finally:
            timer.cancel()
            timer.join()
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def bank_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(EXAMPLES / "bank", tmp_path_factory.mktemp("bank-server")) as server:
        yield server


def test_the_banner_of_the_bank_says_what_runs_and_its_curl_line_begins_a_transfer(bank_server: Running) -> None:
    words = shlex.split(next(line for line in bank_server.banner.splitlines() if line.startswith("curl")))
    headers = dict(words[index + 1].split(": ") for index, word in enumerate(words) if word == "-H")

    answer = httpx.post(words[2], headers=headers, content=words[words.index("-d") + 1], timeout=20).json()

    status = answer["result"]["task"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["parts"][0]["text"] == "Who should get the money?"
    assert "agent      bank (" in bank_server.banner
    assert "flows      transfer_money, check_balance" in bank_server.banner
    assert "workers    2" in bank_server.banner
    assert f"nonstick chat --url {bank_server.url}" in bank_server.banner
    # The description is in the assistant's own endpoints.yml, which nobody named.
    card = httpx.get(f"{bank_server.url}/.well-known/agent-card.json", timeout=20).json()
    assert card["description"] == "Sends money and tells the balance."


def test_make_run_starts_the_bank() -> None:
    shown = subprocess.run(
        ["make", "-n", "run"], capture_output=True, text=True, timeout=SECONDS, check=False, cwd=ROOT
    ).stdout

    assert "nonstick run --assistant examples/bank --workers 2 --port 5005" in shown


# --- check ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("bank", "bank is fine: 2 flows, 7 slots, 3 actions, keyword generator."),
        ("clinic", "clinic is fine: 4 flows, 11 slots, 4 actions, keyword generator."),
    ],
)
def test_check_ends_with_what_would_run(name: str, summary: str) -> None:
    done = nonstick("check", "--assistant", f"examples/{name}")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == summary
    assert "* description " in done.stdout


def test_check_and_run_name_every_problem_with_its_place_before_anything_starts(tmp_path: Path) -> None:
    room = TeaRoom(tmp_path / "room")
    room.break_it()
    room.write("domain.yml", (room.folder / "domain.yml").read_text().replace("expiry: false", "expiry: true"))
    room.write("endpoints.yml", "a2a_server: {description: x, max_context: 3}")

    for command in ("check", "run"):
        done = nonstick(command, "--assistant", str(room.folder), "--port", "0", "--data-dir", str(tmp_path / "data"))

        assert (done.returncode, done.stdout) == (2, "")
        assert "There are 3 problems" in done.stderr
        assert f"validation.a2a_server.unknown_key at {room.folder}/endpoints.yml:1" in done.stderr
        assert "validation.a2a_server.incompatible_session_config at " in done.stderr
        assert re.search(rf"at {room.folder}/flows.yml:\d+, flow 'order_tea', step '", done.stderr)
        assert "The action action_brev does not exist." in done.stderr
        assert "What to do: Add action_brev to 'actions' in the domain." in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "data").exists()


def test_check_shows_warnings_and_passes(tmp_path: Path) -> None:
    room = TeaRoom(tmp_path / "room")
    room.write("config.yml", "assistant_id: tea\npipeline: [{name: WhitespaceTokenizer}]\n")

    done = nonstick("check", "--assistant", str(room.folder))

    assert done.returncode == 0
    assert "warning: " in done.stdout
    assert "The pipeline component 'WhitespaceTokenizer' is not used." in done.stdout
    assert done.stdout.splitlines()[-1].startswith("tea is fine: 1 flow, 3 slots, 1 action")


# --- test -------------------------------------------------------------------------------------------------------


def test_the_dialogues_of_the_examples_pass() -> None:
    for name in ("bank", "clinic"):
        done = nonstick("test", "--assistant", f"examples/{name}")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("PASSED") == 10
        assert "\n10 passed, 0 failed in " in done.stdout


def test_a_dialogue_that_goes_otherwise_is_shown_with_what_was_expected(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "bank", tmp_path / "bank", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "dialogues.yml").write_text(
        '"goes well":\n  - {u: "send money", s: input_required}\n'
        '"goes wrong":\n  - {u: "send money", s: input_required}\n  - {u: "Bob", s: completed, f: null}\n'
        '"can not go":\n  - {u: "send money", b: 3}\n'
    )

    done = nonstick("test", "--assistant", str(folder))
    some = nonstick("test", "--assistant", str(folder), "--dialogue", "well")

    assert done.returncode == 1
    assert "turn 2 ('Bob'): the state should be 'completed' but is 'input_required'" in done.stdout
    assert "turn 2 ('Bob'): the active flow should be None but is 'transfer_money'" in done.stdout
    assert "--- can not go\n    it can't be run: TypeError" in done.stdout
    assert "\n1 passed, 2 failed in " in done.stdout
    assert (some.returncode, some.stdout.count("PASSED")) == (0, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--assistant", "examples/bank", "--dialogue", "zebra"], "There are: A1 happy path"),
        (["--assistant", "examples/none"], "examples/none is not a folder."),
        (["--assistant", "examples"], "No domain was found."),
    ],
)
def test_nothing_to_test_is_explained(words: list[str], said: str) -> None:
    done = nonstick("test", *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# --- chat -------------------------------------------------------------------------------------------------------


def test_a_conversation_from_a_pipe(bank_server: Running) -> None:
    lines = ["/help", "send money", "Bob", "50", "/slots", "1", "/new", "send money", "/cancel", "/nonsense", "/quit"]

    done = nonstick("chat", "--url", bank_server.url, stdin="\n".join(lines))

    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout
    assert "It can: transfer money, check the balance." in shown
    assert "bot> Who should get the money?\n     [input required · flow transfer_money]" in shown
    assert "     1) Yes\n     2) No\n     [input required · flow transfer_money · recipient=Bob amount=50.0" in shown
    assert "  recipient = Bob\n  amount = 50.0" in shown
    assert "bot> Done: 50 euros sent to Bob." in shown
    assert "[canceled · canceled transfer_money]" in shown
    assert "/nonsense is no command" in shown


def test_a_conversation_is_taken_up_again(bank_server: Running) -> None:
    first = nonstick("chat", "--url", bank_server.url, stdin="send money\n")
    found = re.search(r"conversation (\S+);", first.stdout)
    assert found

    second = nonstick("chat", "--url", bank_server.url, "--context", found[1], stdin="Bob\n")

    assert "bot> How many euros should Bob get?" in second.stdout


def test_without_a_server_chat_says_what_to_do() -> None:
    done = nonstick("chat", "--url", "http://127.0.0.1:9")

    assert done.returncode == 1
    assert "Nothing answers at http://127.0.0.1:9" in done.stderr
    assert "nonstick run --assistant examples/bank" in done.stderr
    assert "Traceback" not in done.stderr


# --- chat and reload on a folder that changes --------------------------------------------------------------------


@pytest.fixture
def tea_server(tmp_path: Path) -> Iterator[tuple[Running, TeaRoom]]:
    room = TeaRoom(tmp_path / "room")
    with running(room.folder, tmp_path) as server:
        yield server, room


def test_reload_reaches_the_fleet_and_says_how_it_went(tea_server: tuple[Running, TeaRoom]) -> None:
    server, room = tea_server
    room.add_hours()
    good = nonstick("reload", "--data-dir", server.data)
    named = nonstick("reload", "--data-dir", server.data, "--assistant", str(room.folder))
    flows = httpx.get(f"{server.url}/status", timeout=20).json()["flows"]
    room.break_it()
    broken = nonstick("reload", "--data-dir", server.data)
    wrong = nonstick("reload", "--data-dir", server.data, "--namespace", "coffee")
    nobody = nonstick("reload", "--data-dir", str(server.folder / "nothing"))

    assert (good.returncode, good.stderr) == (0, "")
    assert "Asked 2 workers of tea-room to load again." in good.stdout
    assert "(2 of 2)\nAll serve what is in their files now." in good.stdout
    assert named.returncode == 0
    assert flows == ["order_tea", "opening_hours"]
    assert broken.returncode == 1
    assert "All workers could not load it and go on with what they had:" in broken.stderr
    assert "flow 'order_tea'" in broken.stderr
    assert httpx.get(f"{server.url}/status", timeout=20).json()["flows"] == flows
    assert (wrong.returncode, "There are: tea-room." in wrong.stderr) == (2, True)
    assert (nobody.returncode, "No server runs with its data in" in nobody.stderr) == (2, True)


def test_ctrl_c_cancels_the_running_task_and_the_conversation_goes_on(tea_server: tuple[Running, TeaRoom]) -> None:
    server, _ = tea_server
    process = subprocess.Popen(
        [*COMMAND, "chat", "--url", server.url, "--context", "c1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=ROOT,
    )
    try:
        assert process.stdin is not None
        process.stdin.write("order tea\nslow\n")
        process.stdin.flush()
        deadline = time.monotonic() + SECONDS
        while not (server.folder / "brewing-c1").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.stdout is not None
        shown = ""
        while "The water " not in shown:  # what is streamed is shown before its line has ended
            shown += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate("order tea\n/quit\n", timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert "Canceling…" in rest
    assert "[canceled · canceled order_tea]" in rest
    assert rest.rstrip().endswith("you> /quit")
    assert rest.count("bot> Which tea?") == 1
    assert (process.returncode, errors) == (0, "")


def test_the_status_of_the_server_is_json_that_tools_read(bank_server: Running) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        status = json.loads(httpx.get(f"{bank_server.url}/status", timeout=20).text)
        # A worker tells what it loaded with its second beat: from the first it learns what all are asked to serve.
        if len(status["workers"]) == 2 and all(worker["loaded"] for worker in status["workers"]):
            break
        assert time.monotonic() < deadline, status
        time.sleep(0.1)

    assert status["namespace"] == "bank"
    assert [worker["loaded"]["error"] for worker in status["workers"]] == ["", ""]
