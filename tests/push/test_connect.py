"""A POST goes to the checked address only, speaks to the named host there, and always ends in time."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.push.connect import BODY_LIMIT, CallbackClient, PinnedTransport
from server.push.errors import CallbackRefused, DeliveryFailed
from server.push.policy import CallbackPolicy
from tests.push.handlers import serving
from tests.push.support import Receiver, ScriptedDns, tls_server

NO_TRUST = ssl.create_default_context(cadata=None)


def client(dns: ScriptedDns, **options: Any) -> CallbackClient:
    policy = CallbackPolicy(push_allow_private_targets_for_tests_only=True, resolver=dns)
    return CallbackClient(policy, **({"ssl_context": NO_TRUST} | options))


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as server:
        yield server


@pytest.fixture
def dns() -> ScriptedDns:
    return ScriptedDns([["127.0.0.1"]])


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep every host the process asks the operating system about."""
    hosts: list[str] = []
    real = socket.getaddrinfo

    def watch(host: str, *args: Any, **options: Any) -> Any:
        hosts.append(host)
        return real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", watch)
    return hosts


async def test_the_body_and_headers_arrive_at_the_pinned_address(
    receiver: Receiver, dns: ScriptedDns, looked_up: list[str]
) -> None:
    url = f"http://hooks.example.com:{receiver.port}/T0P?key=1"
    headers = {"content-type": "application/json", "authorization": "Bearer s3cret", "x-a2a-notification-token": "tok"}
    answer = await client(dns).post(url, b'{"a":1}', headers)
    assert (answer.status, answer.body, answer.acknowledged) == (200, b"ok", True)
    assert receiver.requests[0].startswith(b"POST /T0P?key=1 HTTP/1.1\r\n")
    assert receiver.body() == b'{"a":1}'
    head = receiver.head()
    assert headers.items() <= head.items()
    assert head["host"] == f"hooks.example.com:{receiver.port}"
    assert head["connection"] == "close"
    assert head["user-agent"] == "nonstick"
    assert "hooks.example.com" not in looked_up


async def test_a_header_given_twice_in_other_cases_is_sent_once(receiver: Receiver, dns: ScriptedDns) -> None:
    await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {"User-Agent": "mine"})
    assert receiver.head()["user-agent"] == "mine"
    assert receiver.requests[0].lower().count(b"user-agent:") == 1


async def test_an_internationalised_name_keeps_its_ascii_form(receiver: Receiver, dns: ScriptedDns) -> None:
    await client(dns).post(f"http://bücher.example:{receiver.port}/", b"", {})
    assert receiver.head()["host"] == f"xn--bcher-kva.example:{receiver.port}"
    assert dns.questions == [("xn--bcher-kva.example", receiver.port)]


class TestRebinding:
    async def test_the_address_that_was_checked_is_the_one_connected_to(
        self, receiver: Receiver, looked_up: list[str]
    ) -> None:
        async with Receiver(address="127.0.0.2", port=receiver.port) as trap:
            dns = ScriptedDns([["127.0.0.1"], ["127.0.0.2"]])
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"one", {})
            # One question per POST: there is no second answer to be fooled by.
            assert len(dns.questions) == 1
            assert (receiver.connections, trap.connections) == (1, 0)
            assert looked_up == [] or set(looked_up) <= {"127.0.0.1", "127.0.0.2"}
            # The trap is real: the next POST asks anew and goes where that answer says.
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"two", {})
            assert (receiver.connections, trap.connections) == (1, 1)

    async def test_a_name_that_turned_private_since_its_registration_is_refused(self, receiver: Receiver) -> None:
        dns = ScriptedDns([["93.184.216.34"], ["127.0.0.1"]])
        policy = CallbackPolicy(resolver=dns)
        url = f"http://hooks.example.com:{receiver.port}/"
        registered = await policy.check(url)
        assert registered.addresses == ("93.184.216.34",)
        with pytest.raises(CallbackRefused) as caught:
            await CallbackClient(policy, ssl_context=NO_TRUST).post(url, b"", {})
        assert caught.value.reason == "not_public"
        assert receiver.connections == 0

    async def test_a_public_answer_followed_by_a_private_one_never_reaches_the_private_one(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connected: list[str] = []

        class NoNetwork(httpx.AsyncBaseTransport):
            def __init__(self, **_: Any) -> None: ...

            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                connected.append(request.url.host)
                raise httpx.ConnectError("nobody there")

        monkeypatch.setattr(httpx, "AsyncHTTPTransport", NoNetwork)
        dns = ScriptedDns([["93.184.216.34"], ["127.0.0.1"]])
        with pytest.raises(DeliveryFailed):
            await CallbackClient(CallbackPolicy(resolver=dns), ssl_context=NO_TRUST).post(
                f"http://hooks.example.com:{receiver.port}/", b"", {}
            )
        assert connected == ["93.184.216.34"]
        assert receiver.connections == 0


class TestTls:
    @pytest.mark.parametrize("name", ["hooks.example.com", "xn--bcher-kva.example"])
    async def test_the_name_is_asked_for_and_proven_at_the_pinned_address(
        self, tmp_path: Path, dns: ScriptedDns, name: str
    ) -> None:
        receiver = Receiver()
        receiver.tls, trust = tls_server(tmp_path, name, receiver)
        async with receiver:
            answer = await client(dns, ssl_context=trust).post(f"https://{name}:{receiver.port}/x", b"hello", {})
        assert answer.acknowledged
        assert receiver.server_names == [name]
        assert receiver.head()["host"] == f"{name}:{receiver.port}"
        assert receiver.body() == b"hello"

    @pytest.mark.parametrize("certified", ["other.example.com", "127.0.0.1", "example.com"])
    async def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(
        self, tmp_path: Path, dns: ScriptedDns, certified: str
    ) -> None:
        receiver = Receiver()
        receiver.tls, trust = tls_server(tmp_path, certified, receiver)
        async with receiver:
            with pytest.raises(DeliveryFailed) as caught:
                await client(dns, ssl_context=trust).post(f"https://hooks.example.com:{receiver.port}/", b"x", {})
        assert caught.value.reason == "tls"
        assert receiver.requests == []

    async def test_a_certificate_nobody_vouches_for_is_refused(self, tmp_path: Path, dns: ScriptedDns) -> None:
        receiver = Receiver()
        receiver.tls, _ = tls_server(tmp_path, "hooks.example.com", receiver)
        async with receiver:
            with pytest.raises(DeliveryFailed) as caught:
                await client(dns).post(f"https://hooks.example.com:{receiver.port}/", b"x", {})
        assert caught.value.reason == "tls"
        assert receiver.requests == []

    async def test_an_address_is_proven_by_a_certificate_for_it(self, tmp_path: Path, dns: ScriptedDns) -> None:
        receiver = Receiver()
        receiver.tls, trust = tls_server(tmp_path, "127.0.0.1", receiver)
        async with receiver:
            answer = await client(dns, ssl_context=trust).post(f"https://127.0.0.1:{receiver.port}/", b"", {})
        assert answer.acknowledged
        assert dns.questions == []

    async def test_a_receiver_that_speaks_no_tls_is_a_failure(self, receiver: Receiver, dns: ScriptedDns) -> None:
        with pytest.raises(DeliveryFailed) as caught:
            await client(dns, connect_seconds=0.2).post(f"https://hooks.example.com:{receiver.port}/", b"", {})
        assert caught.value.reason in ("tls", "connect")


async def test_ipv6_addresses_are_connected_to(dns: ScriptedDns) -> None:
    try:
        server = await Receiver(address="::1").__aenter__()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    try:
        await client(dns).post(f"http://[::1]:{server.port}/x", b"", {})
        assert server.head()["host"] == f"[::1]:{server.port}"
        named = ScriptedDns([["::1"]])
        await client(named).post(f"http://hooks.example.com:{server.port}/x", b"", {})
        assert server.head()["host"] == f"hooks.example.com:{server.port}"
    finally:
        await server.__aexit__()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_an_answer_and_not_followed(receiver: Receiver, dns: ScriptedDns, status: str) -> None:
    async with Receiver() as inside:
        location = f"http://127.0.0.1:{inside.port}/"
        receiver.answer = f"HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode()
        answer = await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert (answer.status, answer.acknowledged) == (int(status[:3]), False)
        assert (receiver.connections, inside.connections) == (1, 0)


async def test_a_pinned_connection_refuses_any_other_host(receiver: Receiver) -> None:
    transport = PinnedTransport("hooks.example.com", "127.0.0.1", NO_TRUST)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as direct:
        with pytest.raises(httpx.UnsupportedProtocol):
            await direct.get(f"http://other.example.com:{receiver.port}/")
    assert receiver.connections == 0


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment_is_not_used(
    receiver: Receiver, dns: ScriptedDns, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with Receiver() as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert (receiver.connections, proxy.connections) == (1, 0)


async def test_credentials_of_a_netrc_file_are_not_sent(
    receiver: Receiver, dns: ScriptedDns, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine hooks.example.com login me password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
    assert "authorization" not in receiver.head()


async def test_connections_are_not_shared_between_hosts_of_one_address(receiver: Receiver, dns: ScriptedDns) -> None:
    shared = client(dns)
    for host in ("a.example.com", "b.example.com", "a.example.com"):
        await shared.post(f"http://{host}:{receiver.port}/", b"", {})
    assert receiver.connections == 3


class TestBounds:
    async def test_a_large_answer_is_not_read_to_its_end(self, receiver: Receiver, dns: ScriptedDns) -> None:
        size = 64 * 1024 * 1024
        receiver.answer = f"HTTP/1.1 500 Oops\r\ncontent-length: {size}\r\n\r\n".encode() + b"x" * size
        answer = await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert answer.status == 500
        assert answer.body == b"x" * BODY_LIMIT
        assert receiver.written < size // 2

    async def test_a_compressed_answer_is_not_unpacked(self, receiver: Receiver, dns: ScriptedDns) -> None:
        receiver.answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8bxx"
        answer = await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert answer.body == b"\x1f\x8bxx"
        assert receiver.head()["accept-encoding"] == "identity"

    async def test_an_answer_whose_body_never_ends_still_counts(
        self, dns: ScriptedDns, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("server.push.connect.BODY_SECONDS", 0.1)
        half = b"HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\n\r\nhal"
        async with Receiver(answer=half, linger=asyncio.Event()) as receiver:
            url = f"http://hooks.example.com:{receiver.port}/"
            answer = await asyncio.wait_for(client(dns).post(url, b"", {}), 5)
        assert (answer.status, answer.body, answer.acknowledged) == (202, b"hal", True)

    async def test_a_receiver_that_never_answers_is_given_up(self, dns: ScriptedDns) -> None:
        async with Receiver(hold=asyncio.Event()) as silent:
            started = time.monotonic()
            with pytest.raises(DeliveryFailed) as caught:
                await client(dns, overall_seconds=0.2).post(f"http://hooks.example.com:{silent.port}/", b"", {})
        assert caught.value.reason == "timeout"
        assert time.monotonic() - started < 3

    async def test_a_head_that_dribbles_is_given_up(self, dns: ScriptedDns) -> None:
        async def dribble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Every read is fast, only the whole is slow.
            for byte in b"HTTP/1.1 200 OK\r\n" + b"x-pad: 1\r\n" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.02)

        async with serving(dribble) as port:
            post = client(dns, overall_seconds=0.3).post(f"http://hooks.example.com:{port}/", b"", {})
            with pytest.raises(DeliveryFailed) as caught:
                await asyncio.wait_for(post, 5)
        assert caught.value.reason == "timeout"

    async def test_a_lookup_that_never_ends_is_part_of_the_overall_bound(self) -> None:
        async def never(host: str, port: int) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

        slow = CallbackClient(CallbackPolicy(resolver=never), ssl_context=NO_TRUST, overall_seconds=0.1)
        with pytest.raises(DeliveryFailed) as caught:
            await asyncio.wait_for(slow.post("https://hooks.example.com/", b"", {}), 5)
        assert caught.value.reason == "timeout"

    def test_the_documented_bounds_are_the_defaults(self) -> None:
        made = CallbackClient(CallbackPolicy())
        assert (made._connect_seconds, made._overall_seconds) == (5.0, 30.0)
        assert made._ssl.verify_mode is ssl.CERT_REQUIRED
        assert made._ssl.check_hostname


class TestFailures:
    async def test_a_closed_port_is_a_failed_connection(self, dns: ScriptedDns) -> None:
        async with Receiver() as gone:
            port = gone.port
        with pytest.raises(DeliveryFailed) as caught:
            await client(dns).post(f"http://hooks.example.com:{port}/", b"", {})
        assert caught.value.reason == "connect"

    async def test_the_next_address_is_tried_when_one_does_not_accept(self, receiver: Receiver) -> None:
        dns = ScriptedDns([["127.0.0.9", "127.0.0.1"]])
        answer = await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert answer.acknowledged
        assert len(dns.questions) == 1

    async def test_a_request_that_may_have_arrived_is_not_sent_to_the_next_address(self, receiver: Receiver) -> None:
        async with Receiver(address="127.0.0.2", port=receiver.port, answer=b"") as mute:
            dns = ScriptedDns([["127.0.0.2", "127.0.0.1"]])
            with pytest.raises(DeliveryFailed) as caught:
                await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
            assert caught.value.reason == "protocol"
            assert (mute.connections, receiver.connections) == (1, 0)

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"SSH-2.0-OpenSSH\r\n",
            b"HTTP/1.1 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 300_000,
            b"\x00" * 64,
        ],
    )
    async def test_an_answer_that_is_no_http_is_a_failure(
        self, receiver: Receiver, dns: ScriptedDns, answer: bytes
    ) -> None:
        receiver.answer = answer
        with pytest.raises(DeliveryFailed) as caught:
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {})
        assert caught.value.reason == "protocol"

    @pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b", "s3cret\r\n\r\nGET / HTTP/1.1"])
    async def test_a_header_value_cannot_add_lines(self, receiver: Receiver, dns: ScriptedDns, value: str) -> None:
        with pytest.raises(DeliveryFailed) as caught:
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {"authorization": value})
        assert caught.value.reason == "protocol"
        assert "s3cret" not in str(caught.value)
        assert caught.value.__context__ is None
        assert receiver.requests == []

    async def test_a_header_value_outside_ascii_is_sent_as_utf_8(self, receiver: Receiver, dns: ScriptedDns) -> None:
        url = f"http://hooks.example.com:{receiver.port}/"
        await client(dns).post(url, b"", {"x-a2a-notification-token": "grüße"})
        assert receiver.head()["x-a2a-notification-token"] == "grüße"

    async def test_a_header_value_that_cannot_be_written_is_a_failure(
        self, receiver: Receiver, dns: ScriptedDns
    ) -> None:
        with pytest.raises(DeliveryFailed):
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {"x-token": "\ud800"})

    @pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection", "Expect"])
    async def test_headers_that_are_ours_cannot_be_given(self, receiver: Receiver, dns: ScriptedDns, name: str) -> None:
        with pytest.raises(ValueError, match="itself"):
            await client(dns).post(f"http://hooks.example.com:{receiver.port}/", b"", {name: "x"})
        assert receiver.connections == 0

    async def test_a_refused_url_opens_no_connection(self, receiver: Receiver) -> None:
        guarded = CallbackClient(CallbackPolicy(), ssl_context=NO_TRUST)
        with pytest.raises(CallbackRefused):
            await guarded.post(f"http://127.0.0.1:{receiver.port}/", b"", {})
        assert receiver.connections == 0

    async def test_cancelling_ends_a_post(self, dns: ScriptedDns) -> None:
        async with Receiver(hold=asyncio.Event()) as silent:
            post = asyncio.create_task(client(dns).post(f"http://hooks.example.com:{silent.port}/", b"", {}))
            async with asyncio.timeout(5):
                while not silent.requests:  # noqa: ASYNC110 - the other side's doing
                    await asyncio.sleep(0.005)
            post.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(post, 5)

    async def test_a_slow_callback_does_not_hold_up_another(self, receiver: Receiver, dns: ScriptedDns) -> None:
        shared = client(dns)
        async with Receiver(hold=asyncio.Event()) as silent:
            slow = [
                asyncio.create_task(shared.post(f"http://hooks.example.com:{silent.port}/", b"", {}))
                for _ in range(150)
            ]
            async with asyncio.timeout(10):
                while silent.connections < 150:  # noqa: ASYNC110 - the other side's doing
                    await asyncio.sleep(0.005)
            answer = await asyncio.wait_for(shared.post(f"http://hooks.example.com:{receiver.port}/", b"", {}), 5)
            assert answer.acknowledged
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)
