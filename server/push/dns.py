"""Name lookups for callbacks, kept apart from those the server itself depends on."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

# A host name and a port in, addresses as text out; raises OSError when there are none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# A caller can register names whose servers never answer; each holds a thread until the C library gives up.
MAX_LOOKUPS = 32


class SystemResolver:
    """Asks the operating system, in threads of its own.

    The event loop's own pool is small and shared: six slow names would stop every other lookup of the worker, the one
    for Redis among them. These threads are daemons, so that a lookup under way does not hold up the end of a worker.
    """

    def __init__(self, limit: int = MAX_LOOKUPS) -> None:
        self._limit = limit
        self._busy = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return every address of the host."""
        if self._busy >= self._limit:
            raise OSError("too many lookups are under way")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(addresses: list[str] | None, error: Exception | None) -> None:
            # Counted down when the thread ends, not when the waiter does: it is the thread that is scarce.
            self._busy -= 1
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(addresses or [])

        def look_up() -> None:
            addresses: list[str] | None = None
            error: Exception | None = None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                addresses = [str(entry[4][0]) for entry in found]
            except (OSError, UnicodeError) as problem:
                error = OSError(f"the lookup failed: {type(problem).__name__}")
            # The loop may be closed by now: then nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, addresses, error)

        self._busy += 1
        threading.Thread(target=look_up, name="push-dns", daemon=True).start()
        return await answer
