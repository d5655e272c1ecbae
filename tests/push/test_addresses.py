"""Every range that is not routed on the public Internet is refused, to its last address."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.push.addresses import METADATA_ADDRESSES, not_public

REFUSED = {
    "unspecified": ["0.0.0.0", "0.0.0.1", "0.255.255.255", "::"],
    "private": [
        "10.0.0.0", "10.1.2.3", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
        "fc00::", "fc00::1", "fd12:3456:789a::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ],
    "carrier-grade NAT": ["100.64.0.0", "100.64.0.1", "100.127.255.255"],
    "loopback": ["127.0.0.0", "127.0.0.1", "127.1.2.3", "127.255.255.255", "::1"],
    "link-local": ["169.254.0.0", "169.254.1.1", "169.254.255.255", "fe80::1", "febf::1"],
    "reserved": [
        "192.0.0.0", "192.0.0.8", "192.0.0.9", "192.0.0.170", "192.0.0.255", "192.88.99.1", "240.0.0.0", "250.1.1.1",
        "255.255.255.254", "255.255.255.255", "2001:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff::1",
        "4000::1", "8000::", "fe00::1", "1::1", "::2:0:0:1", "1fff:ffff::1",
    ],
    "documentation": [
        "192.0.2.0", "192.0.2.255", "198.51.100.1", "203.0.113.255", "2001:db8::1", "2001:db8:ffff::1", "3fff::1",
        "3fff:fff:ffff::1",
    ],
    "benchmarking": ["198.18.0.0", "198.18.0.1", "198.19.255.255"],
    "multicast": ["224.0.0.0", "224.0.0.251", "239.255.255.255", "ff00::", "ff02::1", "ff0e::1"],
    "site-local": ["fec0::1", "feff::1"],
    "discard": ["100::1"],
    "segment routing": ["5f00::1"],
    "IPv4-mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:7f00:1"],
    "IPv4-translated": ["::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"],
    "IPv4-compatible": ["::127.0.0.1", "::8.8.8.8", "::2"],
    "local NAT64": ["64:ff9b:1::1", "64:ff9b:1::127.0.0.1", "64:ff9b:1:ffff:ffff:ffff:8.8.8.8"],
    "Teredo": ["2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:0:7f00:1::80ff:fffe"],
    "6to4": ["2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1", "2002::"],
    "cloud metadata": [
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.0.23", "100.100.100.200", "168.63.129.16",
        "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe",
    ],
    "zone": ["fe80::1%eth0", "2606:4700::1111%1"],
}  # fmt: skip
NAT64_OR_ISATAP = {
    "64:ff9b::127.0.0.1": "loopback",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::169.254.169.254": "cloud metadata",
    "64:ff9b::168.63.129.16": "cloud metadata",
    "64:ff9b::0.0.0.0": "unspecified",
    "64:ff9b::100.64.0.1": "carrier-grade NAT",
    "2606:4700:1:2:0:5efe:10.0.0.1": "private",
    "2606:4700:1:2:200:5efe:127.0.0.1": "loopback",
}
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255",
    "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "168.63.129.15",
    "2000::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700:4700::1111", "2001:db7::1", "2001:db9::1", "2003::1",
    "2a00:1450:4001::1", "3ffe::1", "64:ff9b::8.8.8.8", "64:ff9b::5db8:d822", "2606:4700:1:2:0:5efe:8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [*((text, kind) for kind, texts in REFUSED.items() for text in texts), *NAT64_OR_ISATAP.items()],
)
def test_an_address_that_is_not_public_is_refused_by_its_kind(text: str, kind: str) -> None:
    assert not_public(ip_address(text)) == kind


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_not_refused(text: str) -> None:
    assert not_public(ip_address(text)) is None


def test_the_metadata_address_that_looks_public_is_refused() -> None:
    assert IPv4Address("168.63.129.16").is_global
    assert IPv4Address("168.63.129.16") in METADATA_ADDRESSES


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_nothing_the_standard_library_calls_private_passes(address: IPv4Address) -> None:
    if not_public(address) is None:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_ipv4_address_gains_nothing_inside_an_ipv6_one(inner: IPv4Address) -> None:
    low = int(inner)
    for prefix in ("::ffff:0:0", "::", "::ffff:0:0:0", "64:ff9b:1::", "64:ff9b::"):
        outer = IPv6Address(int(IPv6Address(prefix)) | low)
        assert not_public(outer) is not None or (prefix == "64:ff9b::" and not_public(inner) is None)
    assert not_public(IPv6Address((0x2002 << 112) | (low << 80))) == "6to4"
    assert not_public(IPv6Address((0x20010000 << 96) | (low ^ 0xFFFFFFFF))) == "Teredo"
