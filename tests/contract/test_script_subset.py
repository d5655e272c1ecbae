"""What the scripts may use: nothing that Redis 6.2 lacks, that a Cluster forbids, or that costs more as data grows."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from stores import scripts
from stores.scripts import Script

LUA = files("stores").joinpath("lua")
SOURCES = {
    **{f"{name}.lua": LUA.joinpath(f"{name}.lua").read_text() for name in scripts.names()},
    **{
        f"{folder}/{item.name}": item.read_text()
        for folder in ("include", "include/apart")
        for item in LUA.joinpath(folder).iterdir()
        if item.name.endswith(".lua")
    },
}
# Those that have another form on a Cluster.
APART = {
    "admit_turn",
    "append_events",
    "finish_turn",
    "cancel_task",
    "take_over",
    "pass_turn",
    "put_push_config",
    "claim_push",
}


def loaded(name: str, *, apart: bool = False) -> Script:
    constants = dict.fromkeys((*scripts.constants_of(name), "context_ms"), "1")
    return (scripts.load_apart if apart else scripts.load)(name, constants)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Each of these exists in Redis 6.2 with the arguments we give it, and works on the keys it is given alone.
COMMANDS = words(
    """DEL EXISTS HDEL HGET HGETALL HINCRBY HKEYS HMGET HSET LLEN LPOP LPOS LPUSH LRANGE LREM PEXPIRE PTTL PUBLISH
    RPUSH SADD SCARD SET SMEMBERS GET SRANDMEMBER SREM TIME XADD XLEN XRANGE XTRIM ZADD ZCARD ZCOUNT ZLEXCOUNT ZRANGE
    ZRANGEBYLEX ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZREVRANGEBYLEX ZSCORE"""
)
GLOBALS = words(
    """redis KEYS ARGV string math table ipairs pairs tonumber tostring type next true false nil unpack error"""
)
WORDS = words(
    """and break do else elseif end for function if in local not or repeat return then until while true false nil"""
)
FORBIDDEN = {
    "documents are opaque": r"\b(cjson|cmsgpack|struct|bit)\b",
    "the loader has its own hash": r"\bsha1hex\b",
    "no shebang before Redis 7": r"^#!",
    "no pcall: an error must stop the script": r"\bpcall\b",
    "no EXPIRE options before Redis 7": r"'P?EXPIRE'[^\n]*'(GT|LT|NX|XX)'",
    "no EXPIRETIME before Redis 7": r"EXPIRETIME",
    "one clock": r"\bos\.",
    "chance is not repeatable": r"math\.random",
    "numbers of this size must be formatted": r"tostring\(now",
    "raw indexes": r"\b(KEYS|ARGV)\[",
}


def code(source: str) -> str:
    """The source without comments."""
    return re.sub(r"--[^\n]*", "", source)


@pytest.mark.parametrize("path", SOURCES)
def test_only_known_commands_are_called(path: str) -> None:
    called = re.findall(r"redis\.call\(\s*([^,)]+)", code(SOURCES[path]))
    assert {name.strip("'\"") for name in called} <= COMMANDS


@pytest.mark.parametrize("path", SOURCES)
def test_nothing_forbidden_is_used(path: str) -> None:
    found = [why for why, pattern in FORBIDDEN.items() if re.search(pattern, code(SOURCES[path]), re.MULTILINE)]
    assert not found


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", scripts.names())
def test_every_name_is_a_local_one(name: str, apart: bool) -> None:
    """A leaked global breaks the next script; one that is read and not there is an error in the middle of writes."""
    if apart and name not in APART:
        pytest.skip("has one form")
    body = re.sub(r"'[^'\n]*'", "''", code(loaded(name, apart=apart).body))
    # The names of a table's fields are its own.
    body = re.sub(r"\{[^{}]*\}", lambda table: re.sub(r"\w+ = ", "", table.group()), body)
    declared = set(GLOBALS)
    for names in re.findall(r"\blocal ((?!function\b)[\w, ]+)", body):
        declared |= {each.strip() for each in names.split(",")}
    for function, parameters in re.findall(r"\bfunction\s*(\w*)\(([^)]*)\)", body):
        declared |= {function, *(each.strip() for each in parameters.split(","))}
    for names in re.findall(r"\bfor ([\w, ]+?) (?:in|=)", body):
        declared |= {each.strip() for each in names.split(",")}
    used = set(re.findall(r"(?<![.\w:])([A-Za-z_]\w*)", body)) - WORDS
    assert used <= declared, used - declared


@pytest.mark.parametrize("name", scripts.names())
def test_every_script_says_what_it_is_for_and_what_it_replies(name: str) -> None:
    source = SOURCES[f"{name}.lua"]
    assert source.startswith("-- ")
    assert "\n-- @keys " in source
    assert "\n-- Replies: " in source
    words = set(re.findall(r"return \{'(\w+)'|(?:reply|answer) = \{'(\w+)'", code(source)))
    header = source.split("-- Replies: ")[1]
    for word in {first or second for first, second in words}:
        assert word in header, f"{name} replies {word}, which its header does not say"


@pytest.mark.parametrize("name", scripts.names())
def test_keys_that_other_slots_hold_can_be_left_out(name: str) -> None:
    """On a Cluster an operation gets the keys of its own slot only; those of other slots come last and are optional."""
    foreign = {"live", "index", "turns", "workers", "former", "ready", "deliveries", "undelivered"}
    script = loaded(name)
    if script.keys[0] == "context":
        assert script.required_keys == 1
        assert set(script.keys[1:]) <= foreign


@pytest.mark.parametrize("path", SOURCES)
def test_no_loop_is_without_a_bound(path: str) -> None:
    """The one `while` there is takes an entry off a queue, which has a limit, at each round."""
    loops = re.findall(r"\b(?:while|repeat)\b[^\n]*\n[^\n]*", code(SOURCES[path]))
    assert all("LPOP" in loop for loop in loops)
