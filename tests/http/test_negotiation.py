"""Which dialect a request speaks, and what is said when its version does not agree."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.http.conftest import Serve, Served

OLD = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "echo"}]}
NEW = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "echo"}]}


async def rpc(http: httpx.AsyncClient, server: Served, method: str, version: str | None, query: str = "") -> Any:
    message = OLD if "/" in method else NEW
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    headers = {} if version is None else {"A2A-Version": version}
    answer = await http.post(server.url + query, json=body, headers=headers)
    assert answer.status_code == 200
    return answer.json()


@pytest.fixture
def strict(serve: Serve) -> Served:
    return serve(lenient_version=False)


@pytest.mark.parametrize("version", ["1.0", "1.0.1"])
async def test_a_10_method_is_served_in_10(http: httpx.AsyncClient, server: Served, version: str) -> None:
    assert "task" in (await rpc(http, server, "SendMessage", version))["result"]


@pytest.mark.parametrize("version", [None, "", "0.3", "0.3.0"])
async def test_a_03_method_is_served_in_03(http: httpx.AsyncClient, server: Served, version: str | None) -> None:
    assert (await rpc(http, server, "message/send", version))["result"]["kind"] == "task"


@pytest.mark.parametrize("version", ["1.7", "0.5", "2.0", "abc", "1", "0.3"])
async def test_a_10_method_with_another_version_is_refused_in_10(
    http: httpx.AsyncClient, server: Served, version: str
) -> None:
    error = (await rpc(http, server, "SendMessage", version))["error"]
    assert error["code"] == -32009
    info = error["data"][0]
    assert info["reason"] == "VERSION_NOT_SUPPORTED"
    assert info["metadata"] == {"requestedVersion": version, "supportedVersions": "0.3,1.0"}


@pytest.mark.parametrize("version", ["1.0", "0.5", "abc"])
async def test_a_03_method_with_another_version_is_refused_in_03(
    http: httpx.AsyncClient, server: Served, version: str
) -> None:
    error = (await rpc(http, server, "message/send", version))["error"]
    assert error["code"] == -32009
    assert not isinstance(error.get("data"), list)


async def test_a_missing_version_is_forgiven_only_where_the_server_is_lenient(
    http: httpx.AsyncClient, server: Served, strict: Served
) -> None:
    for version in (None, ""):
        assert "task" in (await rpc(http, server, "SendMessage", version))["result"]
        assert (await rpc(http, strict, "SendMessage", version))["error"]["code"] == -32009
        assert (await rpc(http, strict, "message/send", version))["result"]["kind"] == "task"


async def test_the_version_may_come_in_the_query_and_the_header_wins(http: httpx.AsyncClient, strict: Served) -> None:
    assert "task" in (await rpc(http, strict, "SendMessage", None, "/?A2A-Version=1.0"))["result"]
    assert (await rpc(http, strict, "SendMessage", "0.3", "/?A2A-Version=1.0"))["error"]["code"] == -32009
    assert "task" in (await rpc(http, strict, "SendMessage", "1.0", "/?A2A-Version=0.3"))["result"]


@pytest.mark.parametrize(
    ("version", "query", "lenient", "status"),
    [
        ("1.0", "", False, 200),
        ("1.0.1", "", False, 200),
        (None, "?A2A-Version=1.0", False, 200),
        (None, "", True, 200),
        (None, "", False, 400),
        ("0.3", "", True, 400),
        ("2.0", "", True, 400),
    ],
)
async def test_rest_is_served_in_10_alone(
    http: httpx.AsyncClient,
    server: Served,
    strict: Served,
    version: str | None,
    query: str,
    lenient: bool,
    status: int,
) -> None:
    served = server if lenient else strict
    headers = {} if version is None else {"A2A-Version": version}
    answer = await http.post(f"{served.url}/message:send{query}", json={"message": NEW}, headers=headers)
    assert answer.status_code == status
    if status == 400:
        assert answer.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("alias", ["message/stream", "message/sendStream"])
async def test_the_aliases_of_rockbot_are_the_same_methods(http: httpx.AsyncClient, server: Served, alias: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": alias, "params": {"message": OLD}}
    async with http.stream("POST", server.url, json=body) as answer:
        events = [line async for line in answer.aiter_lines() if line.startswith("data:")]
    assert json.loads(events[-1].removeprefix("data:"))["result"]["final"] is True


async def test_an_unknown_method_is_told_in_the_callers_dialect(http: httpx.AsyncClient, server: Served) -> None:
    old = (await rpc(http, server, "tasks/list", None))["error"]
    new = (await rpc(http, server, "Teleport", "1.0"))["error"]
    assert (old["code"], new["code"]) == (-32601, -32601)
    assert not isinstance(old.get("data"), list)
    assert new["data"][0]["reason"] == "METHOD_NOT_FOUND"
