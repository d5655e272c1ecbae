"""The kinds of values a setting can have, each refusing what only looks right."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from server.push.errors import PushSettingError
from server.push.secrets import sealing_key
from server.push.signing import signing_key
from stores.topology import check_address

# Redis refuses an expiry that overflows; ten years is beyond any use and far below that.
TEN_YEARS = 10 * 365 * 86400
STORE_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")


def _no_switch(value: object) -> object:
    # YAML reads `on` and `yes` as true, and pydantic would take true for 1.
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "a number is needed, not a switch")
    return value


def _public_url(value: str) -> str:
    # One form without the last slash, so that a path can be put behind it.
    value = value.strip().rstrip("/")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc or any(char.isspace() for char in value):
        raise PydanticCustomError(
            "url_invalid", "an http:// or https:// address is needed, without credentials, query or fragment"
        )
    return value


def _store_url(value: str) -> str:
    value = value.strip()
    try:
        parts = urlsplit(value)
        target = parts.path if parts.scheme == "unix" else parts.hostname
        usable = parts.scheme in STORE_SCHEMES and bool(target)
        if usable:
            check_address(value)
    except ValueError:
        usable = False
    if not usable:
        raise PydanticCustomError(
            "redis_url_invalid",
            "an address like redis://host:6379/0, rediss://host:6379/0, unix:///path or "
            "redis+sentinel://host:26379,host:26379/service or redis+cluster://host:6379,host:6379 is needed",
        )
    return value


def _host_name(value: str) -> str:
    host = value.strip().lower().rstrip(".")
    if not _HOST.fullmatch(host):
        raise PydanticCustomError(
            "host_invalid", "a bare host name is needed, without scheme, port, path or asterisk: hooks.example.com"
        )
    return host


def _signing_key(value: str) -> str:
    try:
        signing_key(value)
    except PushSettingError as error:
        raise PydanticCustomError(error.code, "{said}", {"said": error.sentence}) from None
    return value


def _sealing_key(value: str) -> str:
    try:
        sealing_key(value)
    except PushSettingError as error:
        raise PydanticCustomError(error.code, "{said}", {"said": error.sentence}) from None
    return value


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _network(value: str) -> str:
    if value != "*":
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise PydanticCustomError(
                "network_invalid", "an IP address, a network (10.0.0.0/8) or * is needed"
            ) from None
    return value


Whole = Annotated[int, BeforeValidator(_no_switch)]
Number = Annotated[float, BeforeValidator(_no_switch), Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Lifetime = Annotated[Whole, Field(ge=1, le=TEN_YEARS)]
PublicUrl = Annotated[str, AfterValidator(_public_url)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
HostName = Annotated[str, AfterValidator(_host_name)]
SigningText = Annotated[str, AfterValidator(_signing_key)]
SealingText = Annotated[str, AfterValidator(_sealing_key)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(_split)]
