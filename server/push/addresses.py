"""Addresses a callback may have: those routed on the public Internet, and no others.

The tables follow the IANA special-purpose registries. They are written out because `ipaddress.is_global` answers
differently from one Python release to the next, and knows nothing of clouds.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), word)
    for network, word in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

# Only this block is given out for the public Internet; inside it these parts are special all the same.
_V6_PUBLIC = IPv6Network("2000::/3")
_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), word)
    for network, word in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("2001::/32", "Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "reserved"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

# A network of IPv6 hosts alone reaches public IPv4 through this prefix, and its DNS answers with it.
_NAT64 = IPv6Network("64:ff9b::/96")
# The middle of an ISATAP interface identifier; the IPv4 address follows it.
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})

# Where clouds tell a machine its secrets. Most lie in refused ranges too; Azure's is a public address.
METADATA_ADDRESSES: frozenset[Address] = frozenset(
    {
        IPv4Address("169.254.169.254"),
        IPv4Address("169.254.170.2"),
        IPv4Address("169.254.170.23"),
        IPv4Address("169.254.0.23"),
        IPv4Address("100.100.100.200"),
        IPv4Address("168.63.129.16"),
        IPv4Address("192.0.0.192"),
        IPv6Address("fd00:ec2::254"),
        IPv6Address("fd00:ec2::23"),
        IPv6Address("fd20:ce::254"),
        IPv6Address("fe80::a9fe:a9fe"),
    }
)


def not_public(address: Address) -> str | None:
    """Say what kind of address this is when it is not a public one; None when it may be called."""
    if address in METADATA_ADDRESSES:
        return "cloud metadata"
    if isinstance(address, IPv4Address):
        return next((word for network, word in _V4 if address in network), None)
    return _not_public_v6(address)


def _not_public_v6(address: IPv6Address) -> str | None:
    if address.scope_id is not None:
        return "zone"
    if address in _NAT64:
        return not_public(_last_32_bits(address))
    for network, word in _V6:
        if address in network:
            return word
    if address not in _V6_PUBLIC:
        return "reserved"
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return not_public(_last_32_bits(address))
    return None


def _last_32_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
