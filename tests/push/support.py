"""A receiver on loopback that keeps what it got, and resolvers that answer by script."""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.push.certificates import self_signed
from tests.push.handlers import Handlers

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Receiver:
    """Answers every POST with the same bytes; `hold` keeps it from answering, `linger` from closing afterwards."""

    answer: bytes = OK
    address: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    hold: asyncio.Event | None = None
    linger: asyncio.Event | None = None
    requests: list[bytes] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)
    connections: int = 0
    written: int = 0
    _server: asyncio.Server | None = None
    _handlers: Handlers | None = None

    async def __aenter__(self) -> Self:
        self._handlers = Handlers(self._serve)
        self._server = await asyncio.start_server(self._handlers, self.address, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for waited_for in (self.hold, self.linger):
            if waited_for is not None:
                waited_for.set()
        assert self._server is not None
        assert self._handlers is not None
        self._server.close()
        await self._handlers.finished()

    def head(self, index: int = -1) -> dict[str, str]:
        lines = self.requests[index].split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    def body(self, index: int = -1) -> bytes:
        return self.requests[index].split(b"\r\n\r\n", 1)[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        self.requests.append(head + await reader.readexactly(length))
        if self.hold is not None:
            await self.hold.wait()
        for start in range(0, len(self.answer), 65536):
            writer.write(self.answer[start : start + 65536])
            await writer.drain()
            self.written += len(self.answer[start : start + 65536])
        if self.linger is not None:
            await self.linger.wait()


@dataclass
class ScriptedDns:
    """Gives one answer after the other, the last for ever, and keeps the questions."""

    answers: list[Sequence[str]]
    questions: list[tuple[str, int]] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.questions.append((host, port))
        return self.answers[min(len(self.questions), len(self.answers)) - 1]


def tls_server(folder: Path, name: str, receiver: Receiver) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the server's context with a certificate for a name, and a client's that trusts it alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = self_signed(name, key)
    path = folder / "server.pem"
    path.write_bytes(certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)

    def remember(_: ssl.SSLObject, asked: str | None, __: ssl.SSLContext) -> None:
        receiver.server_names.append(asked)

    server.sni_callback = remember
    return server, ssl.create_default_context(cadata=certificate.decode())
