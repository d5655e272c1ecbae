"""Which dialect a request speaks: its method names it, its version must agree; and which extensions it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from server.protocol.dialect import Dialect
from server.protocol.errors import MethodUnknown, VersionUnsupported
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT

VERSION_HEADER = "A2A-Version"
EXTENSION_HEADERS = ("A2A-Extensions", "X-A2A-Extensions")

DIALECTS: dict[str, Dialect] = {dialect.version: dialect for dialect in (V0_3_DIALECT, V1_0_DIALECT)}
SUPPORTED_VERSIONS = ",".join(DIALECTS)

# The name sets are disjoint, so a known method is a dialect and an operation at once.
_METHODS: dict[str, tuple[Dialect, Operation]] = {
    method: (dialect, operation) for dialect in DIALECTS.values() for method, operation in dialect.methods.items()
}
# The patch part is free: it never takes part in matching.
_VERSION = re.compile(r"([0-9]+\.[0-9]+)(?:\.[0-9]+)?")
_EXTENSION_NAMES = frozenset(name.lower() for name in EXTENSION_HEADERS)
_ECHO_CHARS = 64


def negotiate(
    method: str, version_header: str | None, version_query: str | None, lenient: bool
) -> tuple[Dialect, Operation]:
    """The dialect and operation of a JSON-RPC call. `lenient` serves 1.0 methods to callers that name no version."""
    if method in _METHODS and not version_header and not version_query and lenient:
        return _METHODS[method]
    want = _wanted(version_header, version_query)
    version = _supported(want)
    if method not in _METHODS:
        raise MethodUnknown(details={"method": method[:_ECHO_CHARS]})
    dialect, operation = _METHODS[method]
    if dialect.version != version and not (lenient and not want):
        raise _mismatch(want, f"the method {method}", dialect)
    return dialect, operation


def negotiate_rest(version_header: str | None, version_query: str | None, lenient: bool) -> Dialect:
    """The dialect of an HTTP+JSON call: 1.0, the only version served in that binding."""
    want = _wanted(version_header, version_query)
    if _supported(want) != V1_0_DIALECT.version and not (lenient and not want):
        raise _mismatch(want, "this path", V1_0_DIALECT)
    return V1_0_DIALECT


def dialect_for_error(
    method: str | None = None, version_header: str | None = None, version_query: str | None = None
) -> Dialect:
    """The dialect an error must be rendered in: the method's own, else by the version, as far as it can be read."""
    if method in _METHODS:
        return _METHODS[method][0]
    major = _wanted(version_header, version_query).partition(".")[0]
    return V1_0_DIALECT if major.isdecimal() and int(major[:9]) >= 1 else V0_3_DIALECT


def requested_extensions(headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The extension URIs of a request's headers under either name, in order, each once."""
    uris = (uri.strip() for name, value in headers if name.lower() in _EXTENSION_NAMES for uri in value.split(","))
    return tuple(dict.fromkeys(uri for uri in uris if uri))


def _wanted(version_header: str | None, version_query: str | None) -> str:
    return (version_header or "").strip() or (version_query or "").strip()


def _supported(want: str) -> str:
    """`Major.Minor` of a version we serve. No version means 0.3, whose clients do not know the header."""
    if not want:
        return V0_3_DIALECT.version
    match = _VERSION.fullmatch(want)
    if match is None or match[1] not in DIALECTS:
        raise _unsupported(
            want, f"A2A version {want[:_ECHO_CHARS]!r} is not supported; use one of {SUPPORTED_VERSIONS}"
        )
    return match[1]


def _mismatch(want: str, what: str, dialect: Dialect) -> VersionUnsupported:
    said = f"{VERSION_HEADER}: {want}" if want else f"no {VERSION_HEADER}, which means 0.3"
    return _unsupported(
        want, f"{what} belongs to A2A {dialect.version}, but the request says {said}; send {dialect.version}"
    )


def _unsupported(want: str, message: str) -> VersionUnsupported:
    return VersionUnsupported(
        message,
        details={
            "requestedVersion": want[:_ECHO_CHARS] or V0_3_DIALECT.version,
            "supportedVersions": SUPPORTED_VERSIONS,
        },
    )
