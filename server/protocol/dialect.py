"""What a dialect of A2A is: one wire form of the model, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from server.protocol.errors import A2AError
from server.protocol.fields import MAX_PARTS
from server.protocol.model import JsonObject, Request, StreamItem
from server.protocol.operations import Operation
from server.protocol.views import Result


class Dialect(Protocol):
    """One version of the protocol on the wire. Implementations are stateless and shared by all requests."""

    @property
    def version(self) -> str:
        """`Major.Minor`, as in the A2A-Version header."""

    @property
    def extensions_header(self) -> str:
        """The response header that names the activated extensions."""

    @property
    def methods(self) -> Mapping[str, Operation]:
        """The JSON-RPC method names of this dialect."""

    def decode(self, operation: Operation, params: JsonObject, *, max_parts: int = MAX_PARTS) -> Request:
        """The request in the model, or ParamsInvalid naming the first member that is wrong."""

    def encode_result(self, operation: Operation, result: Result) -> Any:
        """The JSON-RPC `result` of a call that is not a stream."""

    def encode_event(self, item: StreamItem, final: bool) -> JsonObject:
        """One event of a stream or one push body. `final`: the stream is closed after it."""

    def rpc_error(self, error: A2AError) -> JsonObject:
        """The JSON-RPC `error` member."""
