"""The host of a callback URL, whatever notation it is written in, as one name or one address."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import idna

from server.push.addresses import Address
from server.push.errors import CallbackRefused

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
MAX_NAME = 253

# Names that mean this machine, this network or the cloud's metadata service, wherever they resolve to.
_LOCAL_SUFFIXES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
    "onion",
)
_METADATA_NAMES = frozenset(
    {
        "metadata",
        "instance-data",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "metadata.tencentyun.com",
        "metadata.platformequinix.com",
        "metadata.packet.net",
    }
)


@dataclass(frozen=True, slots=True)
class Host:
    """A host in its one spelling: an ASCII name in lower case without final dot, or an address.

    `plain` is false for an address that was written in another way than people write addresses.
    """

    name: str
    address: Address | None = None
    plain: bool = True

    @property
    def bracketed(self) -> str:
        """The host as it stands in a URL or a Host header."""
        return f"[{self.name}]" if isinstance(self.address, IPv6Address) else self.name


def read_host(raw: str) -> Host:
    """Read the host part of a URL; raises CallbackRefused for one that has no single meaning."""
    if raw.startswith("["):
        return _ipv6(raw)
    name = _ascii(raw)
    # One final dot is the root of DNS; it names the same host and would slip past an allowlist.
    name = name[:-1] if name.endswith(".") else name
    if not name:
        raise CallbackRefused("host", "The URL has no host.")
    if _NUMBER.fullmatch(name.rsplit(".", 1)[-1]):
        return _ipv4(name)
    if len(name) > MAX_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise CallbackRefused("host", "The URL's host is not a valid name.")
    return Host(name)


def not_public_name(name: str) -> str | None:
    """Say what a name stands for when it is not one of the public Internet; None when DNS may decide."""
    if name in _METADATA_NAMES:
        return "cloud metadata"
    if any(name == suffix or name.endswith("." + suffix) for suffix in _LOCAL_SUFFIXES):
        return "local"
    # A name without a dot is completed with the search domains of this very network.
    return "local" if "." not in name else None


def _ascii(raw: str) -> str:
    if raw.isascii():
        return raw.lower()
    try:
        # Full-width digits, ideographic dots and letters in circles become what a browser would make of them.
        return idna.encode(raw, uts46=True, std3_rules=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise CallbackRefused("host", "The URL's host is not a valid internationalised name.") from None


def _ipv6(raw: str) -> Host:
    text = raw[1:-1]
    if "%" in text:
        raise CallbackRefused("zone", "The URL's address has a zone, which means something on one machine only.")
    try:
        address = IPv6Address(text)
    except ValueError:
        raise CallbackRefused("host", "The URL's host is not a valid IPv6 address.") from None
    return Host(str(address), address)


def _ipv4(name: str) -> Host:
    """Read an address as the C library and browsers do: 1 to 4 numbers, decimal, octal or hex, the last one wide."""
    numbers = [_number(part) for part in name.split(".")]
    *heads, last = numbers
    if len(numbers) > 4 or any(n > 255 for n in heads) or last >= 256 ** (5 - len(numbers)):
        raise CallbackRefused("host", "The URL's host is not a valid IPv4 address.")
    value = last
    for index, number in enumerate(heads):
        value += number << (8 * (3 - index))
    address = IPv4Address(value)
    return Host(str(address), address, plain=name == str(address))


def _number(part: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise CallbackRefused("host", "The URL's host ends like an address but is none.")
    if part[:2] in ("0x", "0X"):
        return int(part[2:] or "0", 16)
    try:
        return int(part, 8) if part.startswith("0") and len(part) > 1 else int(part)
    except ValueError:
        raise CallbackRefused("host", "The URL's host is not a valid IPv4 address.") from None
