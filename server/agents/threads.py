"""Agents that say `threaded`: each turn runs in a thread with a loop of its own, so that the worker's loop stays free.

    worker's loop                                turn's thread
    run_in_thread --- start ------------------>  loop: agent.run(turn)
    emit on this loop  <--- bridged, awaited ---  turn.artifact(...)
    cancel ------------ call_soon_threadsafe -->  CancelledError at its next await

The thread is a daemon: one that never ends does not keep its process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
Argument = TypeVar("Argument")


async def run_in_thread(work: Callable[[], Coroutine[Any, Any, Result]], *, name: str) -> Result:
    """Runs a coroutine in a thread of its own. A cancel is passed on, and the thread's end is waited for; a second one
    leaves a thread behind that does not heed the first."""
    home = asyncio.get_running_loop()
    ended: asyncio.Future[Result] = home.create_future()
    there = _There(work, home, ended)
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(there.run,), name=name, daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if ended.done():
            raise
        there.cancel()
        # Whatever it comes to when nobody waits any more is nobody's loss.
        ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(ended)


def bridged(emit: Callable[[Argument], Awaitable[None]]) -> Callable[[Argument], Awaitable[None]]:
    """The same call, made on this loop from whichever loop asks for it; who asks waits for it there."""
    home = asyncio.get_running_loop()

    async def on_home(argument: Argument) -> None:
        async def call() -> None:
            await emit(argument)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), home))

    return on_home


class _There:
    """The thread's side."""

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, Any]],
        home: asyncio.AbstractEventLoop,
        ended: asyncio.Future[Any],
    ) -> None:
        self._work = work
        self._home = home
        self._ended = ended
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cancelled = False

    def run(self) -> None:
        try:
            result = asyncio.run(self._main())
        except BaseException as error:
            self._tell(self._fail, error)
        else:
            self._tell(self._succeed, result)

    async def _main(self) -> Any:
        task = asyncio.ensure_future(self._work())
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), task
            if self._cancelled:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._task = None

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _tell(self, how: Callable[[Any], None], what: Any) -> None:
        try:
            self._home.call_soon_threadsafe(how, what)
        except RuntimeError:
            return  # the worker's loop is closed: nobody waits any more

    def _succeed(self, result: Any) -> None:
        if not self._ended.done():
            self._ended.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if self._ended.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self._ended.cancel()
        else:
            self._ended.set_exception(error)
