"""The numbers: right over several workers, cheap, behind the door, and the only ones that deploy/ uses."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import timeit
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from server.config.settings import Settings
from server.observe import metrics
from server.observe.board import Board
from server.observe.registry import Registry
from server.transport.metrics import OwnPort
from tests.http.conftest import serving
from tests.ops.conftest import unique
from tests.support.agents import Ledger, Puppet
from tests.support.client import Speaker
from tests.support.engines import Engine, free_port
from tests.support.fleet import ROOT, Fleet
from tests.support.wait import wait_found, wait_until

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')


def parse(page: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Prometheus' text format, strictly: every line is a comment of its two forms or a sample of a declared name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    declared: dict[str, str] = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in declared, f"{name} is declared twice"
            declared[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match, f"not a sample: {line!r}"
            name, labels, value = match.groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            assert declared.get(name) or declared.get(base) == "histogram", f"{name} is not declared"
            pairs = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels or ""))
            found.setdefault(name, []).append((pairs, float(value)))
    assert set(declared) <= set(metrics.names()), set(declared) - set(metrics.names())
    return found


def total(page: dict[str, list[tuple[dict[str, str], float]]], name: str, **labels: str) -> float:
    return sum(value for found, value in page.get(name, []) if labels.items() <= found.items())


async def scrape(http: httpx.AsyncClient, url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = await http.get(f"{url}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(answer.text)


async def test_any_worker_of_a_replica_answers_for_all_of_them(
    fleet: Fleet, http: httpx.AsyncClient, ledger: Ledger
) -> None:
    context, gate = unique("m"), unique("gate")
    speakers = [Speaker(http, node.url, "1.0") for node in fleet.nodes]
    asked, other = fleet.nodes
    seen = ""

    async def told() -> dict[str, Any] | None:
        """The page of the worker that is asked, once it shows the other one's numbers as that one does."""
        nonlocal seen
        own, page = await scrape(http, other.url), await scrape(http, asked.url)
        for name in ("nonstick_admissions_total", "nonstick_turns_total", "nonstick_turns_running"):
            shown, true = (
                [it for it in found.get(name, []) if it[0]["worker"] == str(other.pid)] for found in (page, own)
            )
            if shown != true:
                seen = f"{name} of {other.pid}: {shown}, it says {true} itself"
                return None
        seen = f"running: {page['nonstick_turns_running']}, alive: {[node.pid for node in fleet.nodes]}"
        return page

    def running(page: dict[str, Any]) -> float:
        """Of the workers there are: what a killed one ran is shown for a while."""
        there = {str(node.pid) for node in fleet.nodes}
        return sum(float(value) for found, value in page["nonstick_turns_running"] if found["worker"] in there)

    async def at_rest() -> dict[str, Any] | None:
        page = await told()
        return page if page and not running(page) else None

    try:
        before = await wait_found(at_rest, what="the numbers of what was before")
    except AssertionError as error:
        error.add_note(seen)
        raise
    for number, speaker in enumerate(speakers):
        await speaker.send("echo", context=f"{context}-{number}", message_id="m1")
    await speakers[1].send("echo", context=f"{context}-0", message_id="m1")
    held = asyncio.create_task(speakers[1].send(f"hold {gate}", context=context))
    await wait_until(lambda: ledger.notes("start", context=context), what="the turn's start")

    page = await wait_found(told, what="the other worker's numbers")
    assert running(page) == 1
    name = "nonstick_admissions_total"
    assert total(page, name, reply="admitted") - total(before, name, reply="admitted") == 3
    assert total(page, name, reply="replayed") - total(before, name, reply="replayed") == 1
    assert {found["worker"] for found, _ in page[name]} >= {str(node.pid) for node in fleet.nodes}
    done = total(page, "nonstick_turns_total", state="completed")
    assert done - total(before, "nonstick_turns_total", state="completed") == 2
    buckets = [value for found, value in page["nonstick_turn_seconds_bucket"] if found["le"] == "+Inf"]
    assert sum(buckets) == total(page, "nonstick_turn_seconds_count")
    assert page["nonstick_store_up"] == [({}, 1.0)]
    assert page["nonstick_fleet_contexts_max"] == [({}, 50.0)]
    assert total(page, "nonstick_fleet_workers") >= 2
    ledger.open(gate)
    await held


async def test_the_lag_of_events_to_a_follower_elsewhere_is_measured(
    fleet: Fleet, http: httpx.AsyncClient, ledger: Ledger
) -> None:
    gate, context = unique("gate"), unique("lag")
    here, elsewhere = (Speaker(http, node.url, "1.0") for node in fleet.nodes)
    task = (await here.send(f"stream 6 {gate}", context=context, wait=False)).task.id
    before = total(await scrape(http, fleet.nodes[1].url), "nonstick_event_lag_seconds_count")
    async with elsewhere.subscribe(task) as stream:
        await stream.next()
        ledger.open(gate)
        await stream.until("completed")
    page = await scrape(http, fleet.nodes[1].url)
    assert total(page, "nonstick_event_lag_seconds_count") - before >= 3
    assert total(page, "nonstick_event_lag_seconds_sum") < 5


async def test_the_line_of_a_turn_has_its_facts_and_no_content(
    fleet: Fleet, http: httpx.AsyncClient, ledger: Ledger
) -> None:
    speaker = Speaker(http, fleet.nodes[0].url, "0.3")
    task = (await speaker.send("raise private-words", context=unique("line"))).task.id
    await wait_until(lambda: f"turn.ended task={task}" in fleet.nodes[0].log, what="the turn's line")
    [line] = [line for line in fleet.nodes[0].log.splitlines() if f"turn.ended task={task}" in line]
    facts = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
    assert (facts["state"], facts["attempt"], facts["dialect"]) == ("failed", "1", "0.3")
    assert int(facts["duration_ms"]) >= 0
    assert facts["round_trips"] == "2"
    assert int(facts["queue_wait_ms"]) >= 0
    assert facts["worker"].startswith(f"{fleet.nodes[0].pid}-")
    assert "private-words" not in fleet.nodes[0].log


def test_counting_costs_little() -> None:
    registry = Registry()
    counter = registry.counter("a_total", "", "state")
    histograms = [registry.histogram(name, "", bounds=(0.1, 1.0, 10.0)) for name in ("b", "c")]

    def one_turn() -> None:
        counter.add("admitted")
        counter.add("completed")
        for histogram in histograms:
            histogram.observe(0.2)

    # The best of several runs: what else the machine does is not its cost.
    assert min(timeit.repeat(one_turn, number=2000, repeat=20)) / 2000 < 5e-6


def test_a_page_survives_a_worker_that_died_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    registry = Registry()
    registry.counter("nonstick_turns_total", 'with "quotes"', "state").add('odd "state"\n')

    async def live() -> str:
        board, gone = Board(registry, "one"), Board(registry, "one")
        board.start()
        gone.start()
        assert gone._task is not None
        gone._task.cancel()
        old = time.time() - 60
        os.utime(gone._file, (old, old))
        page = board.page({})
        await board.stop()
        await gone.stop()
        return page

    page = asyncio.run(live())
    assert page.count("nonstick_turns_total{") == 1
    assert 'state="odd \\"state\\"\\n"' in page
    assert list(tmp_path.iterdir()) == []


async def test_the_page_can_have_a_port_of_its_own(http: httpx.AsyncClient) -> None:
    async def text() -> str:
        return "nonstick_store_up 1\n"

    doors = [OwnPort("127.0.0.1", 0, text)]
    port = await doors[0].start()
    doors.append(OwnPort("127.0.0.1", port, text))  # a second worker of the replica
    try:
        await doors[1].start()
        assert (await http.get(f"http://127.0.0.1:{port}/metrics")).text == "nonstick_store_up 1\n"
        assert (await http.get(f"http://127.0.0.1:{port}/other")).status_code == 404
    finally:
        for door in doors:
            await door.stop()


# --- what deploy/ uses ---------------------------------------------------------------------------------------

USED = re.compile(r"\bnonstick_[a-z_]+\b")


def expressions() -> list[tuple[str, str]]:
    dashboard = json.loads((ROOT / "deploy/grafana/nonstick.json").read_text())
    found = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    found += [(rule["alert"], rule["expr"]) for group in rules["groups"] for rule in group["rules"]]
    return found


@pytest.mark.parametrize(("where", "expr"), expressions())
def test_dashboards_and_alerts_use_only_metrics_that_exist(where: str, expr: str) -> None:
    kinds = metrics.names()
    assert expr.count("(") == expr.count(")")
    for name in USED.findall(expr):
        base = re.sub("_(bucket|sum|count)$", "", name)
        assert name in kinds or kinds.get(base) == "histogram", name
        if kinds.get(name) == "counter":
            assert re.search(rf"(rate|increase)\({name}", expr), f"{name} is a counter: take its rate"


def test_every_alert_names_a_runbook_that_exists_and_every_metric_is_shown() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        assert (ROOT / rule["annotations"]["runbook"]).is_file(), rule["alert"]
    dashboard = (ROOT / "deploy/grafana/nonstick.json").read_text()
    assert not [name for name in metrics.names() if name not in dashboard]


def test_what_a_killed_replica_left_is_swept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, fresh = tmp_path / "nonstick-metrics-left", tmp_path / "nonstick-metrics-fresh"
    for folder in (left, fresh):
        folder.mkdir()
        (folder / "1-a.json").write_text("{}")
    old = time.time() - 3600
    for path in (left / "1-a.json", left):
        os.utime(path, (old, old))

    async def live() -> None:
        board = Board(Registry(), "one")
        board.start()
        await board.stop()

    asyncio.run(live())
    assert list(tmp_path.iterdir()) == [fresh]


@pytest.mark.parametrize("own_port", [False, True])
async def test_the_page_is_behind_the_door_unless_it_has_its_own(
    own_port: bool, real_engine: Engine, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    auth = {"type": "api_key", "api_keys": [{"id": "ops", "sha256": sha256(b"k" * 40).hexdigest()}]}
    own = {"metrics_port": free_port()} if own_port else {}
    name = f"o{os.urandom(3).hex()}"
    settings = Settings(redis_url=real_engine.url, namespace=name, auth=auth, **own)  # type: ignore[arg-type]
    with serving(settings, Puppet(tmp_path)) as served:
        closed = await http.get(f"{served.url}/metrics")
        opened = await http.get(f"{served.url}/metrics", headers={"X-Api-Key": "k" * 40})
        if own_port:
            assert (closed.status_code, opened.status_code) == (404, 404)
            opened = await http.get(f"http://127.0.0.1:{settings.metrics_port}/metrics")
        else:
            assert closed.status_code == 401
        assert parse(opened.text)["nonstick_store_up"] == [({}, 1.0)]
