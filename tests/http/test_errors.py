"""Bad requests of every shape: a clear error in the caller's dialect, and nothing stored."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from stores import Store
from tests.http.conftest import Dial, Serve, Served
from tests.support.client import Wire

MESSAGE = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "echo"}]}
OLD_MESSAGE = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "echo"}]}


@pytest.fixture(autouse=True)
async def nothing_stored(store: Store, bounded_memory: None) -> AsyncIterator[None]:
    """None of these requests may leave a trace in the namespace."""
    before = await tasks_and_contexts(store)
    yield
    assert await tasks_and_contexts(store) == before


async def tasks_and_contexts(store: Store) -> set[str]:
    keys: set[str] = set()
    cursor = "0"
    while True:
        cursor, found = await store.client.call("SCAN", cursor, "MATCH", f"{store.keys.namespace}:*", "COUNT", 1000)
        keys |= {key for key in found if "{fleet}" not in key}
        if str(cursor) == "0":
            return keys


async def post(http: httpx.AsyncClient, server: Served, body: bytes | str, **headers: str) -> httpx.Response:
    raw = body.encode() if isinstance(body, str) else body
    return await http.post(server.url, content=raw, headers={"Content-Type": "application/json", **headers})


def call(method: Any = "SendMessage", params: Any = None, **members: Any) -> str:
    envelope = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {"message": MESSAGE}}
    return json.dumps({**envelope, **members})


def without(body: str, member: str) -> str:
    envelope = json.loads(body)
    del envelope[member]
    return json.dumps(envelope)


DEEP = call(params={"deep": 0}).replace("0}", "[" * 500 + "]" * 500 + "}")


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        pytest.param(b"", -32700, None, id="empty body"),
        pytest.param(b"{", -32700, None, id="not JSON"),
        pytest.param(b'{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "\xff"}}', -32700, None,
                     id="not UTF-8"),
        pytest.param(call().replace('"echo"', '"\\ud800"'), -32700, None, id="a lone surrogate"),
        pytest.param(call().replace('"echo"', "NaN"), -32700, None, id="NaN"),
        pytest.param(call().replace('"echo"', "-Infinity"), -32700, None, id="an infinity"),
        pytest.param(call().replace('"echo"', "1e999"), -32700, None, id="a number out of range"),
        pytest.param(DEEP, -32700, None, id="nested too deep"),
        pytest.param("[" * 100_000, -32700, None, id="nested beyond the parser"),
        pytest.param("5", -32600, None, id="a number"),
        pytest.param('"SendMessage"', -32600, None, id="a string"),
        pytest.param("null", -32600, None, id="null"),
        pytest.param("[]", -32600, None, id="an empty batch"),
        pytest.param(f"[{call()}]", -32600, None, id="a batch"),
        pytest.param(without(call(), "jsonrpc"), -32600, 7, id="no jsonrpc"),
        pytest.param(call(jsonrpc="1.0"), -32600, 7, id="another jsonrpc"),
        pytest.param(call(jsonrpc=2.0), -32600, 7, id="jsonrpc is a number"),
        pytest.param(without(call(), "method"), -32600, 7, id="no method"),
        pytest.param(call(5), -32600, 7, id="method is a number"),
        pytest.param(call(""), -32600, 7, id="method is empty"),
        pytest.param(call("message/teleport"), -32601, 7, id="an unknown method"),
        pytest.param(call("sendmessage"), -32601, 7, id="a method in another case"),
        pytest.param(without(call(), "id"), -32600, None, id="a notification"),
        pytest.param(call(id=True), -32600, None, id="id is a bool"),
        pytest.param(call(id=1.5), -32600, None, id="id is a float"),
        pytest.param(call(id=[1]), -32600, None, id="id is an array"),
        pytest.param(call(id={}), -32600, None, id="id is an object"),
        pytest.param(call(params=[MESSAGE]), -32602, 7, id="params by position"),
        pytest.param(call(params="x"), -32602, 7, id="params is a string"),
        pytest.param(call(params={"nothing": 1}), -32602, 7, id="no message"),
        pytest.param(call(params={"message": []}), -32602, 7, id="message is an array"),
        pytest.param(call(params={"message": {**MESSAGE, "parts": []}}), -32602, 7, id="no parts"),
        pytest.param(call(params={"message": {**MESSAGE, "parts": [{}]}}), -32602, 7, id="an empty part"),
        pytest.param(call(params={"message": {**MESSAGE, "parts": [{"text": 5}]}}), -32602, 7, id="text is a number"),
        pytest.param(call(params={"message": {**MESSAGE, "messageId": ""}}), -32602, 7, id="an empty messageId"),
        pytest.param(call(params={"message": {**MESSAGE, "messageId": "a\x00b"}}), -32602, 7, id="a control character"),
        pytest.param(call(params={"message": {**MESSAGE, "messageId": "x" * 5000}}), -32602, 7, id="an endless id"),
        pytest.param(call(params={"message": {**MESSAGE, "role": "user"}}), -32602, 7, id="role of the other dialect"),
        pytest.param(call("message/send", {"message": {**OLD_MESSAGE, "role": "ROLE_USER"}}), -32602, 7,
                     id="role of the other dialect, 0.3"),
        pytest.param(call("GetTask", {"id": 5}), -32602, 7, id="a task id that is a number"),
        pytest.param(call("GetTask", {"id": "x", "historyLength": -1}), -32602, 7, id="a negative length"),
        pytest.param(call("GetTask", {"id": "x"}), -32001, 7, id="a task id that is none of ours"),
    ],
)  # fmt: skip
async def test_a_bad_call_gets_its_code_and_its_own_id(
    http: httpx.AsyncClient, server: Served, body: bytes | str, code: int, request_id: Any
) -> None:
    answer = await post(http, server, body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", request_id, code)
    assert told["error"]["message"]
    assert "result" not in told


@pytest.mark.parametrize("request_id", ["seven", 7, 0, "", "7", 2**60, None])
async def test_an_id_is_echoed_with_its_type(http: httpx.AsyncClient, server: Served, request_id: Any) -> None:
    told = (await post(http, server, call("GetTask", {"id": "x"}, id=request_id))).json()
    assert told["id"] == request_id
    assert type(told["id"]) is type(request_id)


async def test_more_members_than_the_envelope_has_are_ignored(http: httpx.AsyncClient, server: Served) -> None:
    told = (await post(http, server, call("GetTask", {"id": "x"}, trace="t", extra=[1]))).json()
    assert told["error"]["code"] == -32001


@pytest.mark.parametrize("method", ["agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"])
@pytest.mark.parametrize("params", ["absent", None, {}])
async def test_absent_params_are_empty_ones(http: httpx.AsyncClient, server: Served, method: str, params: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    if params == "absent":
        del body["params"]
    assert (await post(http, server, json.dumps(body))).json()["error"]["code"] in (-32004, -32007)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_a_browser_may_send_across_sites_is_refused(
    http: httpx.AsyncClient, server: Served, kind: str
) -> None:
    for path in ("", "/message:send"):
        answer = await http.post(server.url + path, content=call(), headers={"Content-Type": kind})
        assert answer.status_code == 415


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/a2a+json", "Application/JSON"])
async def test_json_under_its_other_names_is_taken(http: httpx.AsyncClient, server: Served, kind: str) -> None:
    answer = await http.post(server.url, content=call("GetTask", {"id": "x"}), headers={"Content-Type": kind})
    assert answer.json()["error"]["code"] == -32001


async def test_the_rpc_url_takes_no_get(http: httpx.AsyncClient, server: Served) -> None:
    answer = await http.get(server.url)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_refused(
    http: httpx.AsyncClient, serve: Serve, wire: Wire, chunked: bool
) -> None:
    served = serve(max_body_bytes=2048)
    path = "/message:send" if wire == "rest" else ""
    body = call("message/send" if wire == "0.3" else "SendMessage", {"message": {**MESSAGE, "x": "y" * 5000}}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    answer = await http.post(
        served.url + path,
        content=pieces() if chunked else body,
        headers={"Content-Type": "application/json", "A2A-Version": "0.3" if wire == "0.3" else "1.0"},
    )
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert "BODY_TOO_LARGE" in json.dumps(error)
    if wire != "rest":
        assert error["code"] == -32600


async def test_more_parts_than_allowed_are_refused(dial: Dial, serve: Serve, wire: Wire) -> None:
    served = serve(max_parts=3)
    part = {"kind": "text", "text": "x"} if wire == "0.3" else {"text": "x"}
    assert (await dial(wire, served).send("", parts=[part] * 4)).fault.code == -32602
    assert (await dial(wire, served).send("", parts=[part] * 3)).status == 200


REST_BAD: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/message:send", b"{", 400, "INVALID_REQUEST"),
    ("POST", "/message:send", b"[]", 400, "INVALID_REQUEST"),
    ("POST", "/message:send", b"{}", 400, "INVALID_PARAMS"),
    ("POST", "/message:send", b'{"message": 5}', 400, "INVALID_PARAMS"),
    ("POST", "/message:stream", b"{}", 400, "INVALID_PARAMS"),
    ("GET", "/tasks/unknown", None, 404, "TASK_NOT_FOUND"),
    ("GET", "/tasks/unknown?historyLength=-1", None, 400, "INVALID_PARAMS"),
    ("GET", "/tasks?pageSize=0", None, 400, "INVALID_PARAMS"),
    ("POST", "/tasks/unknown:cancel", b"", 404, "TASK_NOT_FOUND"),
    ("POST", "/tasks/unknown:subscribe", b"", 404, "TASK_NOT_FOUND"),
    ("GET", "/tasks/unknown:subscribe", None, 404, "TASK_NOT_FOUND"),
    ("GET", "/tasks/unknown/pushNotificationConfigs", None, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    ("GET", "/nowhere", None, 404, "METHOD_NOT_FOUND"),
    ("PUT", "/message:send", b"{}", 405, "METHOD_NOT_FOUND"),
]


@pytest.mark.parametrize(("verb", "path", "body", "status", "reason"), REST_BAD)
async def test_a_bad_rest_call_gets_a_google_rpc_error(
    http: httpx.AsyncClient, server: Served, verb: str, path: str, body: bytes | None, status: int, reason: str
) -> None:
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    answer = await http.request(verb, server.url + path, content=body, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("application/a2a+json")
    error = answer.json()["error"]
    assert error["code"] == status
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert error["details"][0]["reason"] == reason
    assert error["message"]


async def test_an_invalid_field_is_named(dial: Dial) -> None:
    body = (await dial("rest").call("send", {"message": {**MESSAGE, "parts": []}})).body
    violations = body["error"]["details"][1]["fieldViolations"]
    assert violations[0]["field"] == "message.parts"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"),
        ("tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig"),
        ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs"),
        ("tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig"),
        ("tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfig"),
    ],
)
async def test_push_methods_say_that_push_is_off(http: httpx.AsyncClient, server: Served, old: str, new: str) -> None:
    config = {"url": "https://hooks.example/x"}
    params = {"id": "t", "taskId": "t", "pushNotificationConfigId": "c", "pushNotificationConfig": config, **config}
    for method in (old, new):
        assert (await post(http, server, call(method, params))).json()["error"]["code"] == -32003


async def test_a_send_with_a_callback_says_that_push_is_off(dial: Dial, wire: Wire) -> None:
    member = "pushNotificationConfig" if wire == "0.3" else "taskPushNotificationConfig"
    params = dial(wire).send_params("echo")
    params["configuration"] = {member: {"url": "https://hooks.example/x"}}
    assert (await dial(wire).call("send", params)).fault.code == -32003


async def test_another_callers_task_id_form_tells_nothing(dial: Dial, wire: Wire) -> None:
    for unknown in (str(uuid.uuid4()), "x", "../../etc", "{tag}", "ü"):
        if wire == "rest" and not unknown.isalnum() and "-" not in unknown:
            continue
        assert (await dial(wire).get(unknown)).fault.code == -32001
        assert (await dial(wire).cancel(unknown)).fault.code == -32001
