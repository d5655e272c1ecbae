"""The script loader: names for keys and arguments, shared parts, and errors that point into the files."""

from __future__ import annotations

import hashlib

import pytest

from stores import Store, scripts
from stores.scripts import assemble

PARTS = {
    "one": "local one = 1\nlocal function fail() return redis.call('NO_SUCH_COMMAND') end\n",
    "two": "local two = 2",
}


def build(source: str) -> scripts.Script:
    return assemble("sample", source, PARTS.__getitem__)


def test_names_become_locals_in_their_declared_order() -> None:
    script = build("-- @keys first ?second\n-- @args a b\n-- @args c ...rest\nreturn a\n")
    assert (script.keys, script.required_keys) == (("first", "second"), 1)
    assert (script.args, script.rest) == (("a", "b", "c"), "rest")
    assert script.bind(["k"], {"c": 3, "a": 1, "b": 2, "unused": 9}, [4, 5]) == [1, "k", 1, 2, 3, 4, 5]


def test_a_call_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    script = build("-- @keys first ?second\n-- @args a\nreturn a\n")
    for keys in ([], ["1", "2", "3"]):
        with pytest.raises(TypeError, match="sample takes the keys"):
            script.bind(keys, {"a": 1})
    with pytest.raises(TypeError, match="wants the argument 'a'"):
        script.bind(["k"], {})
    with pytest.raises(TypeError, match="takes no further arguments"):
        script.bind(["k"], {"a": 1}, [2])


def test_the_hash_is_of_the_content() -> None:
    script = build("-- @include one two\nreturn one + two\n")
    assert script.sha == hashlib.sha1(script.body.encode(), usedforsecurity=False).hexdigest()
    assert script.sha != build("-- @include two one\nreturn one + two\n").sha


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("-- @keys k\n-- @include one\nlocal fine = 1\nreturn fine .. nil\n", "sample.lua:4"),
        ("-- @keys k\n-- @include two one\nreturn fail()\n", "include/one.lua:2"),
    ],
)
async def test_an_error_line_points_into_the_file(store: Store, source: str, place: str) -> None:
    with pytest.raises(Exception, match=place) as caught:
        await store.client.run(build(source), ["k"], {})
    assert "user_script:" not in str(caught.value)


@pytest.mark.usefixtures("one_node")
async def test_optional_keys_and_further_arguments_arrive(store: Store) -> None:
    source = "-- @keys k ?more\n-- @args a ...rest\nreturn {k, more or 'none', a, #rest, rest[2] or 'none'}\n"
    script = build(source)
    assert await store.client.run(script, ["k"], {"a": "x"}) == ["k", "none", "x", 0, "none"]
    assert await store.client.run(script, ["k", "m"], {"a": "x"}, ["1", "2"]) == ["k", "m", "x", 2, "2"]


@pytest.mark.parametrize("name", scripts.names())
async def test_every_operation_compiles_on_the_engine_under_the_hash_we_send(store: Store, name: str) -> None:
    script = scripts.load(name, dict.fromkeys(scripts.constants_of(name), "1"))
    assert await store.client.call("SCRIPT", "LOAD", script.body) == script.sha


def test_a_line_outside_the_script_is_left_as_it_is() -> None:
    assert build("return 1\n").explain("user_script:999: odd") == "sample: user_script:999: odd"
