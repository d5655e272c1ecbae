"""Request bodies: read within a bound, parsed strictly. Bad input of any shape ends here with a clear error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.types import Receive

from server.protocol.errors import BodyTooLarge, JsonInvalid, UnsupportedMediaType


class ClientGone(Exception):
    """The client went away before its request was complete."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    max_bytes: int = 10 * 1024 * 1024
    max_depth: int = 64


class Head:
    """A request's headers by lower-case name; of a repeated one the last."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._values = dict(headers)

    def get(self, name: bytes) -> str | None:
        value = self._values.get(name)
        return None if value is None else value.decode("latin-1")


def check_content_type(value: str | None) -> None:
    """Refuses what a browser may send across sites without asking, and everything else that is not JSON."""
    if value is None or value == "application/json":
        return
    kind = value.partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType(f"The request's Content-Type is {kind[:80]!r}; send application/json.")


async def read_body(receive: Receive, head: Head, limits: BodyLimits) -> bytes:
    """The whole body, or BodyTooLarge as soon as that is known."""
    declared = head.get(b"content-length") or ""
    if declared.isdecimal():
        check_size(int(declared), limits)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        check_size(size, limits)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def parse_json(body: bytes, limits: BodyLimits) -> Any:
    """The JSON value of a body: no NaN, no infinities, no lone surrogates, no nesting beyond the limit."""
    try:
        value = _decoded(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise JsonInvalid("The body is not valid UTF-8.") from error
    except RecursionError as error:
        raise _too_deep(limits) from error
    except ValueError as error:
        raise JsonInvalid(f"The body is not valid JSON: {str(error)[:200]}") from error
    if body.count(b"[") + body.count(b"{") > limits.max_depth:
        _check_depth(value, limits)
    if b"\\u" in body:
        _check_text(value)
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:40]} is out of range")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)


def _decoded(text: str) -> Any:
    """What the decoder makes of it, which looks for white space on both sides; hardly any client sends some."""
    if text.startswith("{") and text.endswith("}"):
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def _check_depth(value: Any, limits: BodyLimits) -> None:
    level = [value]
    for _ in range(limits.max_depth + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return
        level = inner
    raise _too_deep(limits)


def _check_text(value: Any) -> None:
    """Escapes can spell half a character, which no store and no client could carry."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonInvalid("The body holds a lone surrogate escape, which is no character.") from error


def check_size(size: int, limits: BodyLimits) -> None:
    if size > limits.max_bytes:
        raise BodyTooLarge(
            f"The body is larger than {limits.max_bytes} bytes (max_body_bytes).",
            details={"maxBytes": str(limits.max_bytes)},
        )


def _too_deep(limits: BodyLimits) -> JsonInvalid:
    return JsonInvalid(f"The body is nested deeper than {limits.max_depth} levels (max_json_depth).")
