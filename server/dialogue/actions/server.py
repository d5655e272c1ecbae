"""Runs actions on an action server, over its HTTP webhook."""

from __future__ import annotations

import hashlib
import json
import logging
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

from server.dialogue.actions.runner import Call
from server.dialogue.outcomes import ActionError, ActionResult

logger = logging.getLogger("nonstick.dialogue")

# The protocol version an action server may look at.
PROTOCOL_VERSION = "3.17.0"
NEEDS_DOMAIN = 449
MAX_ANSWER_BYTES = 1_000_000
_CONTENT = ("text", "image", "custom", "attachment", "buttons", "elements")


@dataclass(frozen=True, slots=True)
class ActionEndpoint:
    """`action_endpoint` of endpoints.yml."""

    url: str
    cafile: str | None = None
    selective_domain: bool = False
    connect_timeout: float = 3.0
    read_timeout: float = 30.0


class ActionServer:
    """Sends each action once: a second try could repeat its effects. Only "I need the domain" is answered again."""

    def __init__(self, endpoint: ActionEndpoint, domain: dict[str, Any], sends_domain: frozenset[str]) -> None:
        self._endpoint = endpoint
        self._domain = json.loads(json.dumps(domain, default=str))
        self._digest = hashlib.sha256(json.dumps(self._domain, sort_keys=True).encode()).hexdigest()
        self._sends_domain = sends_domain
        self._client: httpx.AsyncClient | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    async def run(self, call: Call) -> ActionResult | ActionError:
        body: dict[str, Any] = {
            "next_action": call.name,
            "sender_id": call.tracker.sender_id,
            "tracker": call.tracker.current_state(),
            "version": PROTOCOL_VERSION,
        }
        if not self._endpoint.selective_domain:
            body["domain_digest"] = self._digest
        elif call.name in self._sends_domain:
            body["domain"] = self._domain
        try:
            response = await self._post(body)
            if response.status_code == NEEDS_DOMAIN:
                response = await self._post({**body, "domain": self._domain})
        except httpx.TimeoutException:
            logger.warning("dialogue.action.timeout", extra={"action": call.name})
            return ActionError("action_timeout", {"action": call.name})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            logger.warning(
                "dialogue.action.unreachable", extra={"action": call.name, "exception": type(error).__name__}
            )
            return ActionError("action_server_unreachable", {"action": call.name, "exception": type(error).__name__})
        return _read(call.name, response)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _post(self, body: dict[str, Any]) -> httpx.Response:
        if self._client is None:
            verify: ssl.SSLContext | bool = True
            if self._endpoint.cafile:
                verify = ssl.create_default_context(cafile=self._endpoint.cafile)
            timeout = httpx.Timeout(self._endpoint.read_timeout, connect=self._endpoint.connect_timeout)
            self._client = httpx.AsyncClient(timeout=timeout, follow_redirects=False, verify=verify)
        return await self._client.post(self._endpoint.url, json=body)


def _read(action: str, response: httpx.Response) -> ActionResult | ActionError:
    status = response.status_code
    if status != httpx.codes.OK:
        kind = {400: "action_rejected", 404: "unknown_action"}.get(status, "action_failed")
        logger.warning("dialogue.action.failed", extra={"action": action, "status": status})
        return ActionError(kind, {"action": action, "status": status})
    if len(response.content) > MAX_ANSWER_BYTES:
        return ActionError("action_failed", {"action": action, "reason": "the answer is too large"})
    try:
        answer = response.json()
        events, responses = answer.get("events") or [], answer.get("responses") or []
        if not all(isinstance(item, dict) for item in [*events, *responses]):
            raise TypeError("events and responses must be objects")
    except (ValueError, TypeError, AttributeError, RecursionError):
        logger.warning("dialogue.action.garbage", extra={"action": action})
        return ActionError("action_failed", {"action": action, "reason": "the answer can't be read"})
    return ActionResult(events, [message for item in responses if (message := _message(item))])


def _message(item: dict[str, Any]) -> dict[str, Any]:
    content = {key: item[key] for key in _CONTENT if item.get(key)}
    key = item.get("response") or item.get("template")
    if not isinstance(key, str):
        return content
    variables = {name: value for name, value in item.items() if name not in (*_CONTENT, "response", "template")}
    return {"response": key, "variables": variables, "extras": content}
