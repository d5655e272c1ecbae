"""What the HTTP+JSON binding adds to 1.0: parameters from path, query and body, and the google.rpc error body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from server.protocol.errors import A2AError
from server.protocol.model import JsonObject
from server.protocol.operations import Operation
from server.protocol.v1_0 import V1_0_DIALECT, error_details
from server.protocol.views import Result

_PUSH = frozenset(
    {
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
    }
)
# Queries have only text; these members are booleans, and everything else is text or read from text anyway.
_BOOLEANS = frozenset({"includeArtifacts", "include_artifacts"})
_TRUTH = {"true": True, "false": False}


def rest_params(
    operation: Operation, path: Mapping[str, str], query: Iterable[tuple[str, str]], body: JsonObject | None = None
) -> JsonObject:
    """The params of a call, as its JSON-RPC form would have them. The path wins, and a body leaves the query unread.

    The routes call the task `id` and a push config `config_id`; in push operations `id` is the config's own name.
    """
    params: JsonObject
    if body is not None:
        params = dict(body)
    else:
        params = {name: _TRUTH.get(value, value) if name in _BOOLEANS else value for name, value in query}
    if operation not in _PUSH:
        params.update(path)
        return params
    params["taskId"] = path["id"]
    if "config_id" in path:
        params["id"] = path["config_id"]
    return params


def rest_result(operation: Operation, result: Result) -> Any:
    """The body of a success: never empty, because clients parse every answer."""
    return {} if result is None else V1_0_DIALECT.encode_result(operation, result)


def rest_error(error: A2AError) -> JsonObject:
    """The body of an error; its HTTP status is `error.rest_status`."""
    return {
        "error": {
            "code": error.rest_status,
            "status": error.status,
            "message": error.message,
            "details": error_details(error),
        }
    }
