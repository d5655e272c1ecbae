"""Runs an assistant's Python actions in this process."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping
from typing import Any

from server.dialogue.actions.runner import Call
from server.dialogue.outcomes import ActionError, ActionResult
from server.dialogue.sdk import ActionExecutionRejection, CollectingDispatcher

logger = logging.getLogger("nonstick.dialogue")


class InProcessActions:
    """Async actions run on the event loop, the others in a thread; both have `timeout` seconds."""

    def __init__(self, actions: Mapping[str, Any], domain: dict[str, Any], timeout: float | None) -> None:
        self._actions = actions
        self._async = {name for name, action in actions.items() if inspect.iscoroutinefunction(action.run)}
        self._domain = domain
        self._timeout = timeout

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._actions)

    async def run(self, call: Call) -> ActionResult | ActionError:
        action = self._actions.get(call.name)
        if action is None:
            return ActionError("unknown_action", {"action": call.name})
        dispatcher = CollectingDispatcher(call.on_chunk, call.first_stream)
        try:
            async with asyncio.timeout(self._timeout):
                events = await self._call(action, dispatcher, call)
                if dispatcher.is_streaming:
                    logger.warning("dialogue.action.stream_left_open", extra={"action": call.name})
                    await dispatcher.stream_end()
        except TimeoutError:
            logger.warning("dialogue.action.timeout", extra={"action": call.name, "seconds": self._timeout})
            return ActionError("action_timeout", {"action": call.name})
        except Exception as error:  # the author's code: the turn fails, the worker does not
            rejected = isinstance(error, ActionExecutionRejection) or type(error).__name__ == "ActionExecutionRejection"
            logger.exception("dialogue.action.failed", extra={"action": call.name})
            return ActionError(
                "action_rejected" if rejected else "action_failed",
                {"action": call.name, "exception": type(error).__name__},
            )
        if not all(isinstance(event, dict) for event in events):
            logger.error("dialogue.action.bad_events", extra={"action": call.name})
            return ActionError(
                "action_failed", {"action": call.name, "reason": "it returned something else than events"}
            )
        return ActionResult(events, dispatcher.messages)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _call(self, action: Any, dispatcher: CollectingDispatcher, call: Call) -> list[Any]:
        if call.name in self._async:
            events = await action.run(dispatcher, call.tracker, self._domain)
        else:
            events = await asyncio.to_thread(action.run, dispatcher, call.tracker, self._domain)
            if inspect.isawaitable(events):
                events = await events
        return list(events or ())
