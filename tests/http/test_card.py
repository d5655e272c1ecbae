"""The agent card: one document for clients of both versions, cacheable, under both paths."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.http.conftest import Serve, Served

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@pytest.mark.parametrize("path", PATHS)
async def test_the_card_serves_clients_of_both_versions(http: httpx.AsyncClient, server: Served, path: str) -> None:
    answer = await http.get(server.url + path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    card = answer.json()
    assert card["name"] == "Puppet"
    assert card["skills"][0]["id"] == "obey"
    assert (card["url"], card["protocolVersion"], card["preferredTransport"]) == (
        str(server.settings.url),
        "0.3.0",
        "JSONRPC",
    )
    served = {(one["protocolBinding"], one["protocolVersion"]) for one in card["supportedInterfaces"]}
    assert served == {("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")}
    assert card["capabilities"]["streaming"] is True
    assert card["capabilities"].get("pushNotifications", False) is False


async def test_both_paths_give_the_same_bytes(http: httpx.AsyncClient, server: Served) -> None:
    first, second = [await http.get(server.url + path) for path in PATHS]
    assert (first.content, first.headers["etag"]) == (second.content, second.headers["etag"])


async def test_a_card_that_has_not_changed_is_not_sent_again(http: httpx.AsyncClient, server: Served) -> None:
    first = await http.get(server.url + PATHS[0])
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, max-age=60"
    for wanted in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = await http.get(server.url + PATHS[0], headers={"If-None-Match": wanted})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["cache-control"] == "public, max-age=60"
    assert (await http.get(server.url + PATHS[0], headers={"If-None-Match": '"other"'})).status_code == 200


async def test_the_version_header_does_not_change_the_card(http: httpx.AsyncClient, server: Served) -> None:
    plain, new = [await http.get(server.url + PATHS[0], headers=head) for head in ({}, {"A2A-Version": "1.0"})]
    assert plain.content == new.content


async def test_the_settings_name_and_describe_the_agent(http: httpx.AsyncClient, serve: Serve) -> None:
    served = serve(name="Clerk", description="Files things.", version="2.1", url="https://agents.example/clerk")
    card = (await http.get(served.url + PATHS[0])).json()
    assert (card["name"], card["description"], card["version"]) == ("Clerk", "Files things.", "2.1")
    assert all(one["url"].startswith("https://agents.example/clerk") for one in card["supportedInterfaces"])


async def test_a_static_card_is_served_with_its_url_overwritten(
    http: httpx.AsyncClient, serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "card.json"
    written = {
        "name": "Static",
        "description": "From a file.",
        "version": "9",
        "url": "http://elsewhere.example",
        "protocolVersion": "0.3.0",
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "Does s.", "tags": ["t"]}],
    }
    path.write_text(json.dumps(written))
    served = serve(agent_card_path=path, url="https://agents.example")
    for where in PATHS:
        card = (await http.get(served.url + where)).json()
        assert (card["name"], card["skills"][0]["id"]) == ("Static", "s")
        assert card["url"].startswith("https://agents.example")
        assert "elsewhere.example" not in json.dumps(card)
