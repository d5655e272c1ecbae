"""One POST to a callback, over a connection that can only go where the policy looked."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from server.push.errors import DeliveryFailed
from server.push.policy import CallbackPolicy, CheckedCallback

CONNECT_SECONDS = 5.0
OVERALL_SECONDS = 30.0
# Enough for the sentence a receiver says about its refusal; the rest is not ours to carry.
BODY_LIMIT = 4096
# The status has decided by then; a receiver that dribbles its body keeps nobody.
BODY_SECONDS = 2.0

# Ours to set: a registered value must not change where a request goes or where it ends.
_RESERVED = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect", "trailer"}
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver said; only 2xx is an acknowledgement, a redirect is not followed."""

    status: int
    # At most BODY_LIMIT bytes, undecoded, for the dead letter.
    body: bytes = field(repr=False)
    # The receiver's wish, as it wrote it.
    retry_after: str | None = None

    @property
    def acknowledged(self) -> bool:
        return 200 <= self.status < 300


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects to one checked address, and speaks there to the host the URL names.

    The request keeps its Host header; TLS asks for the host's name and checks the certificate against it. A request
    for any other host, as after a redirect, is refused.
    """

    def __init__(self, host: str, address: str, ssl_context: ssl.SSLContext) -> None:
        self._host = host
        self._address = address
        # Fresh for each POST: a connection kept for one host must not carry requests for a neighbour on its address.
        self._inner = httpx.AsyncHTTPTransport(verify=ssl_context, trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The raw host: the other one shows internationalised names decoded.
        if request.url.raw_host.decode("ascii") != self._host:
            raise httpx.UnsupportedProtocol("this connection is pinned to another host", request=request)
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=self._address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": self._host},
        )
        return await self._inner.handle_async_request(pinned)

    async def aclose(self) -> None:
        await self._inner.aclose()


class CallbackClient:
    """Posts to callbacks; safe to share by all deliveries of a worker."""

    def __init__(
        self,
        policy: CallbackPolicy,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        overall_seconds: float = OVERALL_SECONDS,
        user_agent: str = "nonstick",
    ) -> None:
        self._policy = policy
        # Built once, since reading the trusted certificates takes long; SSL_CERT_FILE of the operator is respected.
        self._ssl = ssl_context or httpx.create_ssl_context()
        self._connect_seconds = connect_seconds
        self._overall_seconds = overall_seconds
        self._user_agent = user_agent

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Check the URL anew and POST once; raises CallbackRefused or DeliveryFailed when there is no answer."""
        reserved = sorted(name for name in headers if name.lower() in _RESERVED)
        if reserved:
            raise ValueError(f"the client sets {', '.join(reserved)} itself")
        try:
            async with asyncio.timeout(self._overall_seconds):
                checked = await self._policy.check(url)
                return await self._post_to_first(checked, body, headers)
        except (TimeoutError, httpx.TimeoutException):
            raise DeliveryFailed("timeout", "the callback did not answer in time") from None

    async def _post_to_first(self, checked: CheckedCallback, body: bytes, headers: Mapping[str, str]) -> Answer:
        *others, last = checked.addresses
        for address in others:
            # Only where no connection came about: once a request may have arrived, it is not sent to a second address.
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._post_to(checked, address, body, headers)
        try:
            return await self._post_to(checked, last, body, headers)
        except httpx.ConnectTimeout:
            raise DeliveryFailed("connect", "the callback's host does not accept connections in time") from None
        except httpx.ConnectError as error:
            if _is_tls(error):
                raise DeliveryFailed("tls", "the callback's host does not prove its name by TLS") from error
            raise DeliveryFailed("connect", "the callback's host does not accept connections") from error

    async def _post_to(self, checked: CheckedCallback, address: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        callback = checked.callback
        transport = PinnedTransport(callback.host.name, address, self._ssl)
        timeout = httpx.Timeout(self._overall_seconds, connect=self._connect_seconds)
        try:
            async with (
                httpx.AsyncClient(
                    transport=transport, timeout=timeout, trust_env=False, follow_redirects=False
                ) as client,
                client.stream(
                    "POST",
                    callback.url,
                    content=body,
                    headers={
                        b"user-agent": self._user_agent.encode(),
                        b"accept-encoding": b"identity",
                        **{name.lower().encode(): value.encode() for name, value in headers.items()},
                        b"host": callback.authority.encode(),
                        b"connection": b"close",
                    },
                ) as response,
            ):
                wish = response.headers.get("retry-after")
                return Answer(response.status_code, await _beginning(response), wish)
        except (httpx.ConnectError, httpx.TimeoutException):
            raise
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            # The library's text may repeat a header's value, so only its kind is passed on.
            kind = type(error).__name__
        raise DeliveryFailed("protocol", f"the exchange with the callback broke off ({kind})")


async def _beginning(response: httpx.Response) -> bytes:
    """Read the first bytes of the body, raw: a compressed one could be a thousand times larger inside."""
    body = bytearray()
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) >= BODY_LIMIT:
                    break
    return bytes(body[:BODY_LIMIT])


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
