"""Who may come in: every path but the probes is closed without credentials, and the refusal says how to come in."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.protocol.operations import Operation
from tests.auth.support import Keys, KeySetServer, hand_made, jwk, make_keys, public_pem, token
from tests.http.doors import DOORS, Door, House, serving
from tests.support.client import WIRES, Wire
from tests.support.engines import Engine, engine

CARDS = ["/.well-known/agent-card.json", "/.well-known/agent.json"]
ROUTES = sorted(
    {(route.verb, route.path.format(id="1", config_id="2")) for op in Operation for route in op.value.routes}
)
GUARDED = [("POST", "/"), *ROUTES, *(("GET", path) for path in CARDS), ("GET", "/status")]


@pytest.fixture(scope="module")
def real_engine() -> Iterator[Engine]:
    with engine("valkey") as running:
        yield running


@pytest.fixture(scope="module")
def keys() -> Keys:
    return make_keys()


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, keys: Keys, tmp_path: Path) -> Door:
    return Door(request.param, keys, tmp_path)


@pytest.fixture
async def house(real_engine: Engine, door: Door, tmp_path: Path) -> AsyncIterator[House]:
    async with serving(real_engine, tmp_path, auth=door.settings) as running:
        yield running


async def test_every_path_but_the_probes_is_closed(house: House, door: Door) -> None:
    assert len(ROUTES) >= 12
    for headers in ({}, door.wrong()):
        async with house.client(headers) as http:
            for verb, path in GUARDED:
                answer = await http.request(verb, path)
                assert answer.status_code == 401, (verb, path)
                challenge = answer.headers["www-authenticate"]
                assert challenge.startswith(f'{door.scheme} realm="a2a"')
                assert ("error=" in challenge) == bool(headers)
            for path in ("/healthz", "/readyz"):
                assert (await http.get(path)).status_code == 200


async def test_a_caller_with_credentials_comes_in_everywhere(house: House, door: Door) -> None:
    async with house.client(door.headers()) as http:
        for verb, path in GUARDED:
            assert (await http.request(verb, path)).status_code != 401, (verb, path)
        for path in (*CARDS, "/status"):
            assert (await http.get(path)).status_code == 200


@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_speaks_the_callers_dialect(house: House, door: Door, wire: Wire) -> None:
    async with house.speaker(door.wrong(), wire) as stranger:
        answer = await stranger.send()
    assert answer.status == 401
    assert (answer.fault.code, answer.fault.reason) == (-32000, "UNAUTHENTICATED")
    if wire == "rest":
        assert (answer.body["error"]["code"], answer.body["error"]["status"]) == (401, "UNAUTHENTICATED")
    else:
        assert (answer.body["jsonrpc"], answer.body["id"]) == ("2.0", None)


@pytest.mark.parametrize("path", ["/", "/message:send", "/message:stream"])
@pytest.mark.parametrize("headers", [[(b"content-length", b"100")], [(b"transfer-encoding", b"chunked")]])
async def test_nobody_waits_for_the_body_of_a_stranger(house: House, path: str, headers: list[Any]) -> None:
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "headers": headers,
    }
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was asked for")

    async def send(message: Any) -> None:
        sent.append(message)

    await house.app(scope, receive, send)

    assert sent[0]["status"] == 401


@pytest.mark.parametrize("wire", WIRES)
async def test_a_caller_is_served_in_every_wire(house: House, door: Door, wire: Wire) -> None:
    async with house.speaker(door.headers(), wire) as alice:
        task = (await alice.send("hello")).task
        assert (task.state, task.text) == ("completed", "echo: hello")
        async with alice.stream("stream 3") as stream:
            assert (await stream.rest())[-1].state == "completed"


async def test_the_log_names_the_refusal_and_not_the_credentials(
    house: House, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    secret = next(iter(door.wrong().values()))
    async with house.client({next(iter(door.wrong())): secret}) as http:
        with caplog.at_level(logging.DEBUG):
            answer = await http.post("/", json={})
    rejected = [one for one in caplog.records if one.getMessage().startswith("a2a_server.http.auth_rejected")]
    assert [one.levelname for one in rejected] == ["WARNING"]
    shown = " ".join(str(one.__dict__) for one in caplog.records if one.name.startswith("server"))
    for part in secret.removeprefix("Bearer ").split("."):
        assert part not in shown
        assert part not in answer.text


async def test_the_card_says_how_to_come_in(house: House, door: Door) -> None:
    async with house.client(door.headers()) as http:
        answers = [await http.get(path) for path in CARDS]
    card = answers[0].json()
    assert answers[1].json() == card
    assert answers[0].headers["cache-control"].startswith("private")
    if door.kind == "api_key":
        scheme = card["securitySchemes"]["apiKey"]
        assert scheme["apiKeySecurityScheme"] == {"location": "header", "name": "X-Api-Key"}
        assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "header", "X-Api-Key")
        assert card["security"] == [{"apiKey": []}]
    else:
        scheme = card["securitySchemes"]["bearer"]
        assert scheme["httpAuthSecurityScheme"] == {"scheme": "Bearer", "bearerFormat": "JWT"}
        assert (scheme["type"], scheme["scheme"]) == ("http", "Bearer")
        assert card["security"] == [{"bearer": []}]
    assert [list(one["schemes"]) for one in card["securityRequirements"]] == [list(card["securitySchemes"])]


async def test_the_extended_card_is_there_for_who_proved_who_it_is(house: House, door: Door) -> None:
    async with house.client(door.headers()) as http:
        public = (await http.get(CARDS[0])).json()
        rest = await http.get("/extendedAgentCard", headers={"A2A-Version": "1.0"})
        new = await http.post("/", json=rpc("GetExtendedAgentCard"), headers={"A2A-Version": "1.0"})
        old = await http.post("/", json=rpc("agent/getAuthenticatedExtendedCard"))
    assert public["capabilities"]["extendedAgentCard"] is True
    assert public["supportsAuthenticatedExtendedCard"] is True
    assert rest.json() == new.json()["result"]
    for shown in (rest.json(), old.json()["result"]):
        assert {key: shown[key] for key in ("name", "skills")} == {key: public[key] for key in ("name", "skills")}


async def test_without_auth_there_is_no_extended_card(real_engine: Engine, tmp_path: Path) -> None:
    async with serving(real_engine, tmp_path) as house, house.client() as http:
        public = (await http.get(CARDS[0])).json()
        answer = await http.post("/", json=rpc("GetExtendedAgentCard"), headers={"A2A-Version": "1.0"})
    assert public["capabilities"]["extendedAgentCard"] is False
    assert "securitySchemes" not in public
    assert answer.json()["error"]["code"] == -32007


async def test_a_card_written_by_hand_tells_of_the_door_too(real_engine: Engine, keys: Keys, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    facts = {"name": "By hand", "description": "d", "version": "1", "skills": [], "capabilities": {}}
    card.write_text(json.dumps(facts))
    door = Door("HS256", keys, tmp_path)
    async with (
        serving(real_engine, tmp_path, auth=door.settings, agent_card_path=card) as house,
        house.client(door.headers()) as http,
    ):
        shown = (await http.get(CARDS[0])).json()
    assert shown["name"] == "By hand"
    assert list(shown["securitySchemes"]) == ["bearer"]
    assert shown["capabilities"]["extendedAgentCard"] is True


async def test_a_public_card_opens_the_card_and_nothing_else(real_engine: Engine, keys: Keys, tmp_path: Path) -> None:
    settings = {**Door("HS256", keys, tmp_path).settings, "public_card": True}
    async with serving(real_engine, tmp_path, auth=settings) as house, house.client() as http:
        for path in CARDS:
            answer = await http.get(path)
            assert answer.status_code == 200
            assert answer.headers["cache-control"].startswith("public")
            assert "securitySchemes" in answer.json()
        for verb, path in GUARDED:
            if path not in CARDS:
                assert (await http.request(verb, path)).status_code == 401, (verb, path)


class TestAttacks:
    """What the verifiers refuse is refused through the whole server, with the RFC 6750 word for it."""

    @pytest.fixture
    async def http(self, real_engine: Engine, keys: Keys, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
        settings = Door("RS256", keys, tmp_path).settings
        async with serving(real_engine, tmp_path, auth=settings) as house, house.client() as client:
            yield client

    @pytest.mark.parametrize(
        "name", ["none", "confused", "expired", "future", "other key", "no sub", "empty sub", "huge", "path kid"]
    )
    async def test_a_forged_token_is_refused(self, http: httpx.AsyncClient, keys: Keys, name: str) -> None:
        forged = {
            "none": hand_made({"alg": "none"}, {"sub": "alice"}),
            "confused": hand_made({"alg": "HS256"}, {"sub": "alice"}, public_pem(keys.rsa).decode()),
            "expired": token(keys.rsa, "RS256", exp=1),
            "future": token(keys.rsa, "RS256", nbf=9_999_999_999),
            "other key": token(keys.rsa_other, "RS256"),
            "no sub": token(keys.rsa, "RS256", sub=None),
            "empty sub": token(keys.rsa, "RS256", sub=" "),
            "huge": "a" * 20_000,
            "path kid": token(keys.rsa_other, "RS256", kid="../../key.pem"),
        }[name]
        answer = await http.post("/", json={}, headers={"Authorization": f"Bearer {forged}"})
        assert answer.status_code == 401
        assert "error=" in answer.headers["www-authenticate"]

    async def test_a_token_elsewhere_is_no_token(self, http: httpx.AsyncClient, keys: Keys) -> None:
        good = token(keys.rsa, "RS256")
        for answer in (
            await http.post(f"/?access_token={good}", json={}),
            await http.post("/", data={"access_token": good}),
            await http.post("/", json={}, headers={"Cookie": f"access_token={good}"}),
            await http.post("/", json={}, headers={"Authorization": f"Basic {good}"}),
        ):
            assert answer.status_code == 401

    async def test_two_authorization_headers_are_one_too_many(self, http: httpx.AsyncClient, keys: Keys) -> None:
        good = ("Authorization", f"Bearer {token(keys.rsa, 'RS256')}")
        for pair in ([good, good], [good, ("authorization", "Bearer x")]):
            answer = await http.post("/", json={}, headers=pair)
            assert answer.status_code == 401
            assert 'error="invalid_request"' in answer.headers["www-authenticate"]


async def test_an_issuer_that_is_down_is_no_fault_of_the_caller(
    real_engine: Engine, keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with KeySetServer() as gone:
        url = gone.url
    auth = {"type": "bearer", "jwt": {"jwks_url": url}}
    good = {"Authorization": f"Bearer {token(keys.rsa, 'RS256', kid='k1')}"}
    async with serving(real_engine, tmp_path, auth=auth) as house:
        for wire in WIRES:
            async with house.speaker(good, wire) as alice:
                answer = await alice.send()
                assert answer.status == 503
                assert int(answer.headers["retry-after"]) >= 1
                assert "KEYS_UNAVAILABLE" in json.dumps(answer.body)
                assert "www-authenticate" not in answer.headers
        async with house.client() as http:
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.get("/status")).status_code == 401


async def test_published_keys_let_callers_in_and_go_on_when_the_issuer_goes_down(
    real_engine: Engine, keys: Keys, tmp_path: Path
) -> None:
    async with KeySetServer() as issuer:
        issuer.publish(jwk(keys.rsa, "k1"))
        auth = {"type": "bearer", "jwt": {"jwks_url": issuer.url}}
        async with serving(real_engine, tmp_path, auth=auth) as house:
            for who in ("alice", "bob"):
                headers = {"Authorization": f"Bearer {token(keys.rsa, 'RS256', kid='k1', sub=who)}"}
                async with house.speaker(headers) as caller:
                    assert (await caller.send()).task.state == "completed"
                await issuer.stop()


def rpc(method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
