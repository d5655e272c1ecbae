"""The operations on push configs: create, get, list and delete, for the caller whose task it is."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from server.protocol import errors
from server.protocol.model import CreatePushConfig, DeletePushConfig, GetPushConfig, ListPushConfigs, PushConfig
from server.protocol.views import TaskPush
from server.push.document import Registered, config_name, dump_config, load_config
from server.push.errors import CallbackRefused, SecretUnreadable
from server.push.policy import CallbackPolicy
from server.push.secrets import SecretBox
from server.turns.admission import store_errors
from server.turns.worker import Worker
from stores.keys import DeliveryRef
from stores.records import PushBook, PushEntry, StoredConfig

log = logging.getLogger(__name__)

MAX_CONFIGS = 16
MAX_SECRET = 8192
# What can stand in a header without changing where it ends.
_VALUE = re.compile(rf"[\x21-\x7e]([\x20-\x7e]{{0,{MAX_SECRET - 2}}}[\x21-\x7e])?")
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")

Deliver = Callable[[DeliveryRef, str], None]


class PushConfigs:
    """What the transports call for push configs."""

    def __init__(self, worker: Worker, policy: CallbackPolicy, box: SecretBox, deliver: Deliver) -> None:
        self._worker = worker
        self._store = worker.store.push
        self._policy = policy
        self._box = box
        self._deliver = deliver

    async def prepare(self, task_id: str, config: PushConfig, *, every: bool) -> PushEntry:
        """What is stored of a callback, once it was found to be one that we may call."""
        await self._check(config)
        registered = Registered(config.id or task_id, config, every)
        return PushEntry(config_name(registered.id), dump_config(self._box, task_id, registered), from_start=every)

    async def create(self, caller: str, asked: CreatePushConfig) -> TaskPush:
        """Registers a callback or replaces the one with its id. Without an id it gets the task's."""
        entry = await self.prepare(asked.task_id, asked.config, every=True)
        ref = DeliveryRef(caller, asked.task_id)
        with store_errors():
            word, fence = await self._store.put_push_config(self._worker.id, ref, entry.name, entry.doc)
        if word == "unknown":
            raise errors.TaskNotFound(details={"taskId": asked.task_id})
        if word == "too_many":
            raise too_many(asked.task_id)
        if fence:
            self._deliver(ref, fence)
        return TaskPush(asked.task_id, self._open(asked.task_id, entry.doc).config)

    async def get(self, caller: str, asked: GetPushConfig) -> TaskPush:
        """One config; without an id the task's default one, or else its first."""
        book = await self._book(caller, asked.task_id)
        found = self._find(book, asked)
        if found is None:
            raise errors.TaskNotFound(
                "The task has no such push notification config.",
                details={"taskId": asked.task_id, **({"configId": asked.config_id} if asked.config_id else {})},
            )
        return TaskPush(asked.task_id, self._open(asked.task_id, found.doc).config)

    async def list(self, caller: str, asked: ListPushConfigs) -> tuple[TaskPush, ...]:
        book = await self._book(caller, asked.task_id)
        return tuple(TaskPush(asked.task_id, self._open(asked.task_id, config.doc).config) for config in book.configs)

    async def delete(self, caller: str, asked: DeletePushConfig) -> None:
        """After this no further attempt is made; a config that is not there is deleted already."""
        with store_errors():
            there = await self._store.drop_push_config(DeliveryRef(caller, asked.task_id), config_name(asked.config_id))
        if not there:
            raise errors.TaskNotFound(details={"taskId": asked.task_id})

    async def _book(self, caller: str, task_id: str) -> PushBook:
        with store_errors():
            book = await self._store.read_push_configs(DeliveryRef(caller, task_id))
        if book is None:
            raise errors.TaskNotFound(details={"taskId": task_id})
        return book

    def _find(self, book: PushBook, asked: GetPushConfig) -> StoredConfig | None:
        by_name = {config.name: config for config in book.configs}
        if asked.config_id is not None:
            return by_name.get(config_name(asked.config_id))
        return by_name.get(config_name(asked.task_id)) or (book.configs[0] if book.configs else None)

    def _open(self, task_id: str, doc: str) -> Registered:
        try:
            return load_config(self._box, task_id, doc)
        except SecretUnreadable as error:
            log.error("a2a_server.push.secret_unreadable task=%s reason=%s", task_id, error.reason)
            raise errors.InternalFault("The stored config can't be read; register it again.") from error

    async def _check(self, config: PushConfig) -> None:
        try:
            await self._policy.check(config.url)
        except CallbackRefused as refusal:
            raise errors.ParamsInvalid(
                refusal.sentence,
                details={"callback": refusal.reason},
                violations=[("pushNotificationConfig.url", refusal.sentence)],
            ) from None
        for name, value in (("token", config.token), ("authentication.credentials", config.credentials)):
            if value and not _VALUE.fullmatch(value):
                raise _unfit(name, f"must be printable ASCII of at most {MAX_SECRET} characters")
        if not all(_SCHEME.fullmatch(scheme) for scheme in config.auth_schemes):
            raise _unfit("authentication.scheme", "is not the name of an HTTP authentication scheme")


def too_many(task_id: str) -> errors.ParamsInvalid:
    return errors.ParamsInvalid(
        f"Task {task_id} has {MAX_CONFIGS} push notification configs, and no task may have more; delete one first.",
        details={"taskId": task_id},
    )


def _unfit(name: str, why: str) -> errors.ParamsInvalid:
    field = f"pushNotificationConfig.{name}"
    # The value itself is a secret and stays out of the message.
    return errors.ParamsInvalid(f"{field} {why}.", violations=[(field, why)])
