"""From an operation of the table to the service's method: the one dispatch that both bindings share."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import cast

from server.auth.caller import Caller
from server.auth.errors import KeysUnavailable
from server.auth.errors import Unauthenticated as CredentialsRefused
from server.auth.verify import Verifier
from server.protocol import errors
from server.protocol.model import (
    CancelTask,
    Card,
    CreatePushConfig,
    DeletePushConfig,
    GetPushConfig,
    GetTask,
    ListPushConfigs,
    ListTasks,
    Request,
    SendMessage,
    SubscribeToTask,
)
from server.protocol.operations import Operation
from server.protocol.views import Result
from server.push.configs import PushConfigs
from server.turns import cursor as cursors
from server.turns.admission import store_errors
from server.turns.cursor import Cursor
from server.turns.service import Service
from server.turns.watch import Stream
from stores.limits import RequestLimit

log = logging.getLogger(__name__)
Headers = list[tuple[bytes, bytes]]


class Calls:
    """Authenticates and performs operations."""

    def __init__(
        self,
        service: Service,
        verifier: Verifier,
        card: Callable[[], Card],
        *,
        push: PushConfigs | None,
        requests: RequestLimit | None,
    ) -> None:
        """`push` is None where push notifications are off, `requests` where a caller may ask as often as it likes."""
        self._service = service
        self._verifier = verifier
        self._card = card
        self._push = push
        self._requests = requests

    async def caller(self, headers: Headers) -> Caller:
        """Who is calling, before anything of the request's body is read."""
        try:
            return await self._verifier.verify(headers)
        except KeysUnavailable as refusal:
            # Ours, not the caller's: a 401 would make it throw away a token that is good.
            raise errors.Unavailable(
                "KEYS_UNAVAILABLE", "Tokens can't be verified just now; try again.", refusal.retry_after_seconds
            ) from refusal
        except CredentialsRefused as refusal:
            headers_out = {"WWW-Authenticate": self._verifier.challenge(refusal)}
            # The description is a sentence of ours: nothing of the credentials is in it.
            raise errors.Unauthenticated(f"Not let in: {refusal.description}.", headers=headers_out) from refusal

    async def enter(self, headers: Headers) -> Caller:
        """The caller of an operation, if it may ask for one more. The card and the probes do without the store."""
        caller = await self.caller(headers)
        if self._requests is not None:
            with store_errors():
                wait_ms = await self._requests.limit_requests(caller.key)
            if wait_ms:
                most = self._requests.per_second
                message = f"You may ask {most} times a second (caller_max_requests_per_second); slow down."
                details = {"limit": "caller_max_requests_per_second"}
                raise errors.LimitReached("RATE_LIMIT", message, math.ceil(wait_ms / 1000), details)
        return caller

    async def unary(self, operation: Operation, caller: Caller, request: Request) -> Result:
        """One answer."""
        service, who = self._service, caller.key
        match operation:
            case Operation.SEND_MESSAGE:
                send = cast(SendMessage, request)
                self._check_send(send)
                return await service.send_message(who, send)
            case Operation.GET_TASK:
                return await service.get_task(who, cast(GetTask, request))
            case Operation.LIST_TASKS:
                return await service.list_tasks(who, cast(ListTasks, request))
            case Operation.CANCEL_TASK:
                return await service.cancel_task(who, cast(CancelTask, request))
            case Operation.GET_EXTENDED_CARD:
                return self._extended_card()
            case _:
                return await self._push_config(operation, who, request)

    async def stream(self, operation: Operation, caller: Caller, request: Request, last_event: Cursor | None) -> Stream:
        """Many answers; what is wrong from the start is raised here."""
        if operation is Operation.SEND_STREAMING_MESSAGE:
            send = cast(SendMessage, request)
            self._check_send(send)
            return await self._service.stream_message(caller.key, send, last_event)
        return await self._service.subscribe(caller.key, cast(SubscribeToTask, request), last_event)

    async def _push_config(self, operation: Operation, who: str, request: Request) -> Result:
        push = self._push
        if push is None:
            raise errors.PushUnsupported()
        match operation:
            case Operation.CREATE_PUSH_CONFIG:
                return await push.create(who, cast(CreatePushConfig, request))
            case Operation.GET_PUSH_CONFIG:
                return await push.get(who, cast(GetPushConfig, request))
            case Operation.LIST_PUSH_CONFIGS:
                return await push.list(who, cast(ListPushConfigs, request))
            case _:
                await push.delete(who, cast(DeletePushConfig, request))
                return None

    def _check_send(self, send: SendMessage) -> None:
        if send.push is not None and self._push is None:
            raise errors.PushUnsupported()

    def _extended_card(self) -> Card:
        card = self._card()
        if not card.extended_card:
            raise errors.ExtendedCardMissing()
        return card


def last_event_id(text: str | None) -> Cursor | None:
    """The position a client resumes from. Who has seen nothing, or something that is not ours, begins with the task."""
    return cursors.parse(text.strip()) if text is not None else None
