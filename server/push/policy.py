"""The policy for callback URLs: what may be registered, and which addresses may be connected to."""

import asyncio
import re
import unicodedata
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from server.push.addresses import not_public
from server.push.dns import Resolver, SystemResolver
from server.push.errors import CallbackRefused, PushSettingError
from server.push.hosts import Host, not_public_name, read_host

MAX_URL = 2048
DNS_SECONDS = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}
_PORT = re.compile(r"[0-9]{0,5}")

# Ports of services that read a POST as commands of their own (the list browsers refuse, fetch.spec.whatwg.org).
# fmt: off
_OTHER_SERVICES = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211,
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback URL taken apart once; nothing parses the text again, so no two parsers can disagree."""

    scheme: str
    host: Host
    port: int
    # Callers put secrets into paths and queries.
    target: str = field(repr=False)

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        if self.port == DEFAULT_PORTS[self.scheme]:
            return self.host.bracketed
        return f"{self.host.bracketed}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its one spelling."""
        return f"{self.scheme}://{self.authority}{self.target}"


@dataclass(frozen=True, slots=True)
class CheckedCallback:
    """A callback with the addresses that were checked: these, and no others, may be connected to."""

    callback: Callback
    addresses: tuple[str, ...]


class CallbackPolicy:
    """Decides about callback URLs, at registration and again before each POST."""

    def __init__(
        self,
        allowed_hosts: tuple[str, ...] = (),
        *,
        push_allow_private_targets_for_tests_only: bool = False,
        resolver: Resolver | None = None,
        dns_seconds: float = DNS_SECONDS,
    ) -> None:
        """Without `allowed_hosts` every public host may be called; an entry stands for itself and its subdomains."""
        self._allowed = tuple(allowed_host(entry) for entry in allowed_hosts)
        self._private_for_tests = push_allow_private_targets_for_tests_only
        self._resolver = resolver or SystemResolver()
        self._dns_seconds = dns_seconds

    def parse(self, url: str) -> Callback:
        """Take a URL apart and check all that needs no DNS."""
        parts = _split(url)
        if parts.scheme not in DEFAULT_PORTS:
            raise CallbackRefused("scheme", "The callback URL must begin with http:// or https://.")
        if "@" in parts.netloc:
            raise CallbackRefused("credentials", "The callback URL must not carry credentials.")
        raw_host, raw_port = _host_and_port(parts.netloc)
        host = read_host(raw_host)
        self._check_host(host)
        port = self._port(raw_port, parts.scheme)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii():
            raise CallbackRefused("characters", "The callback URL's path and query must be percent-encoded.")
        return Callback(parts.scheme, host, port, target)

    async def check(self, url: str) -> CheckedCallback:
        """Parse a URL, resolve its host, and refuse it if any of its addresses is not public."""
        callback = self.parse(url)
        if callback.host.address is not None:
            return CheckedCallback(callback, (callback.host.name,))
        answers = await self._resolve(callback)
        # One bad answer refuses the name: which of them is used is not ours to hope for.
        return CheckedCallback(callback, tuple(dict.fromkeys(self._check_answer(answer) for answer in answers)))

    def _check_host(self, host: Host) -> None:
        kind = not_public(host.address) if host.address is not None else not_public_name(host.name)
        if kind is not None and not self._private_for_tests:
            raise CallbackRefused("not_public", f"The callback's host is not a public one ({kind}).")
        if not host.plain:
            raise CallbackRefused("notation", "The callback's address must be written as four decimal numbers.")
        if self._allowed and not any(_matches(host, entry) for entry in self._allowed):
            raise CallbackRefused("not_allowed", "The callback's host is not among the hosts this server may call.")

    def _port(self, raw: str, scheme: str) -> int:
        port = int(raw) if raw else DEFAULT_PORTS[scheme]
        if not 0 < port < 65536:
            raise CallbackRefused("port", "The callback's port must be between 1 and 65535.")
        if port in _OTHER_SERVICES:
            raise CallbackRefused("port", f"Port {port} belongs to another service than HTTP.")
        return port

    async def _resolve(self, callback: Callback) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._dns_seconds):
                answers = tuple(await self._resolver(callback.host.name, callback.port))
        except TimeoutError:
            raise CallbackRefused(
                "dns_timeout", "The callback's host could not be resolved in time.", retriable=True
            ) from None
        except OSError as error:
            raise CallbackRefused("dns", "The callback's host does not resolve.", retriable=True) from error
        if not answers:
            raise CallbackRefused("dns", "The callback's host does not resolve.", retriable=True)
        return answers

    def _check_answer(self, answer: str) -> str:
        try:
            address = ip_address(answer)
        except ValueError:
            raise CallbackRefused(
                "not_public", "The callback's host resolves to something that is no address."
            ) from None
        kind = not_public(address)
        if kind is not None and not self._private_for_tests:
            # The address itself stays ours: a stranger must not read our DNS through this message.
            raise CallbackRefused(
                "not_public", f"The callback's host resolves to an address that is not public ({kind})."
            )
        return str(address)


def allowed_host(entry: str) -> str:
    """Bring an entry of the allowlist into the spelling hosts are compared in."""
    text = entry.strip()
    text = text[2:] if text.startswith("*.") else text.removeprefix(".")
    try:
        return read_host(f"[{text}]" if ":" in text and not text.startswith("[") else text).name
    except CallbackRefused:
        raise PushSettingError(
            "push_allowed_host",
            f"push_notification_allowed_hosts: {entry!r} is not a host: write a name such as hooks.example.com, "
            "without scheme, port or path.",
        ) from None


def _matches(host: Host, entry: str) -> bool:
    return host.name == entry or host.name.endswith("." + entry)


def _split(url: str) -> SplitResult:
    if not isinstance(url, str) or not 0 < len(url) <= MAX_URL:
        raise CallbackRefused("url", f"The callback URL must have between 1 and {MAX_URL} characters.")
    # Before parsing: urlsplit drops tabs and line ends silently, and backslashes are slashes to some.
    if any(char in '\\<>"{}|^`' or unicodedata.category(char)[0] in "CZ" for char in url):
        raise CallbackRefused("characters", "The callback URL has characters that do not belong in a URL.")
    try:
        return urlsplit(url)
    except ValueError:
        raise CallbackRefused("url", "The callback URL cannot be read.") from None


def _host_and_port(netloc: str) -> tuple[str, str]:
    if netloc.startswith("["):
        host, bracket, rest = netloc.partition("]")
        host, colon, port = host + bracket, rest[:1], rest[1:]
    else:
        host, colon, port = netloc.partition(":")
    if colon not in ("", ":") or _PORT.fullmatch(port) is None:
        raise CallbackRefused("port", "The callback's port is not a number.")
    return host, port
