"""What would run: flags over file over environment, the store that follows, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from server.config import ConfigRefused, Flags, Plan, make_plan
from server.config.plan import is_loopback, redacted
from tests.config.files import write


def planned(environ: dict[str, str] | None = None, **flags: Any) -> Plan:
    return make_plan(Flags(**{"agent": "examples.echo:Echo", **flags}), environ or {})


def refused(environ: dict[str, str] | None = None, **flags: Any) -> dict[str, str]:
    with pytest.raises(ConfigRefused) as caught:
        planned(environ, **flags)
    return {problem.code.rpartition(".")[2]: problem.where for problem in caught.value.problems}


def test_a_laptop_gets_the_embedded_engine() -> None:
    plan = planned()

    assert (plan.interface, plan.port, plan.workers) == ("127.0.0.1", 5005, 2)
    assert plan.embedded
    assert plan.data_dir == Path(".nonstick")
    assert plan.settings.redis_url is None
    assert plan.settings.agent == "examples.echo:Echo"
    assert list(plan.notes()) == []


def test_the_store_is_named_by_flag_then_file_then_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server: {description: x, redis_url: 'redis://file/0'}")
    bare = tmp_path / "bare.yml"
    bare.write_text("a2a_server: {description: x}")
    environ = {"REDIS_URL": "redis://environment/0"}

    assert planned(environ, endpoints=file, redis="redis://flag/0").settings.redis_url == "redis://flag/0"
    assert planned(environ, endpoints=file).settings.redis_url == "redis://file/0"
    assert planned(environ, endpoints=bare).settings.redis_url == "redis://environment/0"
    assert planned(environ).settings.redis_url == "redis://environment/0"
    assert planned({"REDIS_URL": ""}).embedded
    assert not planned(environ).embedded


def test_embedded_wins_over_file_and_environment(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server: {description: x, redis_url: 'redis://file/0'}")

    plan = planned({"REDIS_URL": "redis://environment/0"}, endpoints=file, embedded=True, data_dir=tmp_path)

    assert plan.data_dir == tmp_path
    assert plan.settings.redis_url is None


@pytest.mark.parametrize("interface", ["0.0.0.0", "::", "192.0.2.7", "host.example", ""])
def test_a_public_bind_needs_a_store(interface: str) -> None:
    assert refused(interface=interface) == {"no_store": "--interface"}
    assert refused({"REDIS_URI": "redis://host"}, interface=interface) == {"no_store": "--interface"}
    assert planned({"REDIS_URL": "redis://host"}, interface=interface).settings.redis_url == "redis://host"
    assert planned(interface=interface, embedded=True).embedded


@pytest.mark.parametrize("interface", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_bind_needs_none(interface: str) -> None:
    assert is_loopback(interface)
    assert planned(interface=interface).embedded


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ({}, "http://127.0.0.1:5005"),
        ({"port": 80}, "http://127.0.0.1:80"),
        ({"interface": "::1"}, "http://[::1]:5005"),
        ({"interface": "0.0.0.0", "embedded": True}, "http://localhost:5005"),
        ({"interface": "bank.example", "embedded": True, "port": 1}, "http://bank.example:1"),
    ],
)
def test_the_public_url_is_inferred(flags: dict[str, Any], url: str) -> None:
    assert planned(**flags).settings.url == url


def test_a_url_of_the_file_stays(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server: {description: x, url: 'https://bank.example'}")

    plan = planned(endpoints=file, port=0).listening_on(4711)

    assert plan.settings.url == "https://bank.example"
    assert plan.local_url == "http://127.0.0.1:4711"


def test_a_free_port_becomes_part_of_the_inferred_url() -> None:
    plan = planned(port=0).listening_on(4711)
    assert (plan.port, plan.settings.url) == (4711, "http://127.0.0.1:4711")


def test_the_flag_decides_the_log_level(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server: {description: x, log_level: error}")
    assert planned(endpoints=file).settings.log_level == "error"
    assert planned(endpoints=file, log_level="debug").settings.log_level == "debug"


@pytest.mark.parametrize(
    ("flags", "code", "where"),
    [
        ({"agent": None}, "no_agent", "--agent"),
        ({"agent": "examples.echo"}, "agent_invalid", "--agent"),
        ({"agent": ":Echo"}, "agent_invalid", "--agent"),
        ({"assistant": Path("bank")}, "agent_conflict", "--assistant"),
        ({"agent": None, "assistant": Path("no/such/folder")}, "assistant_not_found", "--assistant"),
        ({"embedded": True, "redis": "redis://host"}, "store_conflict", "--embedded"),
        ({"redis": "host:6379"}, "redis_url_invalid", "--redis"),
        ({"redis": "redis+cluster://a:7000/3"}, "redis_url_invalid", "--redis"),
        ({"port": 65536}, "port_invalid", "--port"),
        ({"port": -1}, "port_invalid", "--port"),
        ({"workers": 0}, "workers_invalid", "--workers"),
        ({"log_level": "loud"}, "not_a_choice", "--log-level"),
        ({"ssl_keyfile": Path("key.pem")}, "ssl_invalid", "--ssl-keyfile"),
        ({"ssl_certificate": Path("absent.pem")}, "ssl_invalid", "--ssl-certificate"),
    ],
)
def test_a_wrong_flag_is_refused_by_its_name(flags: dict[str, Any], code: str, where: str) -> None:
    assert refused(**flags)[code] == where


def test_a_wrong_variable_is_refused_by_its_name() -> None:
    assert refused({"REDIS_URL": "nonsense"}) == {"redis_url_invalid": "REDIS_URL"}


def test_problems_of_flags_and_file_come_together(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server:\n  max_contexts: -1\n")
    assert set(refused(endpoints=file, port=-1)) == {"port_invalid", "missing_key", "out_of_range"}


AUTH = "a2a_server: {description: x, auth: {type: bearer, jwt: {algorithm: HS256, secret: '${KEY}'}}}"


@pytest.mark.parametrize("interface", ["0.0.0.0", "::", "192.0.2.7", ""])
def test_a_public_bind_without_auth_is_warned_of(tmp_path: Path, interface: str) -> None:
    guarded = write(tmp_path, AUTH)

    [warning] = [note for note in planned(interface=interface, embedded=True).notes() if "open_endpoint" in note]

    assert warning.startswith("validation.a2a_server.open_endpoint: ")
    behind = planned({"KEY": "k" * 64}, endpoints=guarded, interface=interface, embedded=True)
    assert behind.settings.auth is not None
    assert not [note for note in behind.notes() if "open_endpoint" in note]


def test_what_may_not_be_meant_is_noted(tmp_path: Path) -> None:
    file = write(tmp_path, "a2a_server: {description: x, task_timeout_seconds: 0}")

    notes = " ".join(planned(endpoints=file, interface="0.0.0.0", embedded=True).notes())

    assert "a2a_message_cache_ttl_seconds is 0" in notes
    assert "localhost" in notes
    assert "island" in notes


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:hush@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://user:hush@host/0?password=hush", "rediss://user:***@host/0?…"),
        ("redis://user:hu@sh@host", "redis://user:***@host"),
        ("unix:///tmp/s?password=hush", "unix:///tmp/s?…"),
    ],
)
def test_a_store_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted(url) == shown
    assert planned(redis=url).store == shown
