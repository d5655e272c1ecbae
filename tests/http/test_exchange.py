"""A request of the turns' route, taken from the parser and answered without ASGI between."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from server.protocol.errors import BodyTooLarge
from server.transport.body import BodyLimits, ClientGone
from server.transport.exchange import Endpoint, Exchange
from server.transport.head import bounded_http
from tests.http.test_answer import Line

KIND = b"text/plain"


def request(body: bytes, *headers: bytes, path: bytes = b"/", version: bytes = b"1.1") -> bytes:
    lines = [b"POST " + path + b" HTTP/" + version, b"host: here", b"content-length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


class Server:
    """One connection to a worker whose turns' endpoint is given, and whose application is told apart by its answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

        app.state = SimpleNamespace(endpoint=endpoint)  # type: ignore[attr-defined]
        config = uvicorn.Config(app, http=bounded_http(1024), lifespan="off", log_config=None, access_log=False)
        config.load()
        self.state = ServerState()
        make: Any = config.http_protocol_class
        self.protocol = make(config=config, server_state=self.state, app_state={})
        self.line = Line()
        self.protocol.connection_made(self.line)

    async def hear_beginning(self, *pieces: bytes) -> None:
        """Each piece when nobody has anything to do with what came before."""
        for piece in pieces:
            self.protocol.data_received(piece)
            for _ in range(5):
                await asyncio.sleep(0)

    async def hear(self, *pieces: bytes) -> list[bytes]:
        """All that was written when everything is answered."""
        await self.hear_beginning(*pieces)
        while self.state.tasks:
            await asyncio.wait_for(asyncio.gather(*self.state.tasks), 5)
        return self.line.writes


async def echo(exchange: Exchange) -> None:
    await exchange.answer(200, KIND, await exchange.read(BodyLimits()))


async def test_an_answer_is_one_write_and_the_connection_stays() -> None:
    server = Server(echo)
    await server.hear(request(b"one"))
    assert len(await server.hear(request(b"two"))) == 2
    assert [write.partition(b"\r\n\r\n")[2] for write in server.line.writes] == [b"one", b"two"]
    assert all(write.startswith(b"HTTP/1.1 200 OK\r\n") for write in server.line.writes)
    assert b"content-type: text/plain\r\ncontent-length: 3\r\n" in server.line.writes[0]
    assert not server.line.closed
    assert server.state.total_requests == 2


async def test_it_has_what_every_answer_of_this_worker_has() -> None:
    server = Server(echo)
    server.state.default_headers = [(b"date", b"today"), (b"x-more", b"1")]
    (write,) = await server.hear(request(b"one"))
    assert b"\r\ndate: today\r\nx-more: 1\r\n" in write


async def test_a_body_in_pieces_is_put_together() -> None:
    whole = request(b"abcdef")
    (write,) = await Server(echo).hear(whole[:40], whole[40:-3], whole[-3:])
    assert write.endswith(b"\r\n\r\nabcdef")


async def test_only_its_own_path_and_verb_come_here() -> None:
    for other in (request(b"", path=b"/tasks"), request(b"", path=b"/?a=1"), b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"):
        (write,) = await Server(echo).hear(other)
        assert write.startswith(b"HTTP/1.1 404 ")


async def test_requests_sent_at_once_are_answered_in_their_order() -> None:
    server = Server(echo)
    writes = await server.hear(request(b"one") + request(b"two") + request(b"", path=b"/tasks") + request(b"three"))
    assert [write.partition(b"\r\n\r\n")[2] for write in writes] == [b"one", b"two", b"", b"three"]


@pytest.mark.parametrize("last", [request(b"one", b"connection: close"), request(b"one", version=b"1.0")])
async def test_a_connection_that_ends_with_its_answer_is_closed_after_it(last: bytes) -> None:
    server = Server(echo)
    (write,) = await server.hear(last)
    assert b"\r\nconnection: close\r\n" in write
    assert write.endswith(b"\r\n\r\none")
    assert server.line.closed


async def test_a_worker_that_goes_says_goodbye_with_its_answers() -> None:
    server = Server(echo)
    server.state.default_headers = [(b"connection", b"close")]
    (write,) = await server.hear(request(b"one"))
    assert write.count(b"connection: close") == 1
    assert server.line.closed


async def test_who_goes_before_the_body_is_there_gets_no_turn() -> None:
    ended: list[str] = []

    async def endpoint(exchange: Exchange) -> None:
        try:
            await exchange.read(BodyLimits())
        except ClientGone:
            ended.append("gone")

    server = Server(endpoint)
    await server.hear_beginning(request(b"abcdef")[:-2])
    server.protocol.connection_lost(None)
    await server.hear()
    assert ended == ["gone"]
    assert server.line.writes == []


async def test_who_goes_before_the_answer_gets_none() -> None:
    gone = asyncio.Event()

    async def endpoint(exchange: Exchange) -> None:
        await exchange.read(BodyLimits())
        await gone.wait()
        await exchange.answer(200, KIND, b"late")

    server = Server(endpoint)
    await server.hear_beginning(request(b"one"))
    server.protocol.connection_lost(None)
    gone.set()
    assert await server.hear() == []


async def test_an_answer_waits_for_a_reader_that_is_slow() -> None:
    server = Server(echo)
    server.protocol.pause_writing()
    await server.hear_beginning(request(b"one"))
    assert server.line.writes == []
    server.protocol.resume_writing()
    (write,) = await server.hear()
    assert write.endswith(b"one")


@pytest.mark.parametrize("said", [b"content-length: 9", b"transfer-encoding: chunked"])
async def test_a_body_beyond_the_limit_is_refused_as_soon_as_that_is_known(said: bytes) -> None:
    seen: list[str] = []

    async def endpoint(exchange: Exchange) -> None:
        with pytest.raises(BodyTooLarge):
            await exchange.read(BodyLimits(max_bytes=8))
        seen.append("refused")
        await exchange.answer(413, KIND, b"")

    head = b"POST / HTTP/1.1\r\nhost: here\r\n" + said + b"\r\n\r\n"
    body = b"9\r\n123456789\r\n" if b"chunked" in said else b""
    (write,) = await Server(endpoint).hear(head + body)
    assert seen == ["refused"]
    assert write.startswith(b"HTTP/1.1 413 ")


async def test_a_whole_body_beyond_the_limit_is_refused_too() -> None:
    async def endpoint(exchange: Exchange) -> None:
        with pytest.raises(BodyTooLarge):
            await exchange.read(BodyLimits(max_bytes=8))
        await exchange.answer(413, KIND, b"", [(b"x-why", b"size")])

    (write,) = await Server(endpoint).hear(request(b"123456789"))
    assert b"\r\nx-why: size\r\n" in write


async def test_who_waits_to_be_asked_for_the_body_is_asked() -> None:
    whole = request(b"one", b"expect: 100-continue")
    writes = await Server(echo).hear(whole[:-3], whole[-3:])
    assert writes[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert writes[1].endswith(b"one")


async def test_an_endpoint_that_fails_is_a_500() -> None:
    async def endpoint(exchange: Exchange) -> None:
        raise ValueError("a fault of ours")

    server = Server(endpoint)
    (write,) = await server.hear(request(b"one"))
    assert write.startswith(b"HTTP/1.1 500 ")
    assert server.line.closed


async def test_a_stream_goes_out_as_it_comes_and_ends() -> None:
    async def endpoint(exchange: Exchange) -> None:
        await exchange.read(BodyLimits())
        await exchange.send({"type": "http.response.start", "status": 200, "headers": []})
        for chunk in (b"a", b"b"):
            await exchange.send({"type": "http.response.body", "body": chunk, "more_body": True})
        await exchange.send({"type": "http.response.body", "body": b""})

    writes = await Server(endpoint).hear(request(b""))
    assert b"transfer-encoding: chunked" in writes[0]
    assert writes[1:] == [b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"]
