"""Every key and channel, and how ids become part of them.

All keys begin with the namespace. `{...}` is the hash tag: what shares it shares a slot.

| key | type | content | TTL class |
|---|---|---|---|
| `ns:{tag}:c:<cid>` | hash | context: fence, running turn, cancel mark, open tasks, session | context |
| `ns:{tag}:q:<cid>` | list | queued turns, `<mid>:<task>` | context |
| `ns:{tag}:x:<cid>` | zset | listing of the context's tasks that have ended | twice as a task |
| `ns:{tag}:m:<mid>` | hash | message that waits in the queue, or began there: task, digest, input | context |
| `ns:{tag}:o:<mid>` | string | outcome of a message | message |
| `ns:{tag}:t:<caller>:<task>` | hash | task: state, document, cursor, running message | context while open, then task |
| `ns:{tag}:e:<caller>:<task>` | stream | events, `<fence>-<sequence>`, if over two | context while open, then log |
| `ns:{tag}:p:<caller>:<task>` | hash | callbacks: cursors, dead letters, who delivers | as the task |
| `ns:{tag}:b:<cid>` | hash | on a Cluster: its reservations, what it owes to other slots | context |
| `ns:{live}:contexts` | zset | live contexts by deadline | context |
| `ns:{live}:contexts:stamps` | zset | on a Cluster: the same by stamp; so beside a caller's | context |
| `ns:{live}:contexts:stamp` | string | on a Cluster: the last stamp; so beside a caller's | context |
| `ns:{live}:contexts:sweep` | hash | on a Cluster: how far the sweep is | context |
| `ns:{fleet}:workers` | zset | incarnations by last beat | context |
| `ns:{fleet}:beat:<worker>` | hash | counter, info | beat |
| `ns:{fleet}:turns:<worker>` | set | turns it runs, `<tag>:<caller>:<cid>:<task>`, on a Cluster `:<nonce>` | context |
| `ns:{fleet}:deliveries:<worker>` | set | tasks whose callbacks it serves, `<caller>:<task>` | context |
| `ns:{fleet}:undelivered` | set | tasks with news for callbacks that nobody serves | context |
| `ns:{fleet}:letters` | zset | dead letters by time, `<caller>:<task>:<config>:<event>` | context |
| `ns:{fleet}:generation` | string | which load of the assistant all are asked to serve | context |
| `ns:{fleet}:schema` | string | the form of the records in this namespace, a number | context |
| `ns:{fleet}:ready` | set | contexts whose queue waits for a worker | context |
| `ns:{fleet}:reaped:<worker>` | string | tombstone of a worker presumed dead | context |
| `ns:{i<caller>}:tasks` | zset | listing index of the caller's tasks | context |
| `ns:{i<caller>}:tasks:lapse` | zset | those that wait for the caller, by the time they lapse | context |
| `ns:{i<caller>}:tasks:live` | zset | the caller's live contexts by deadline, where a limit counts them | context |
| `ns:{i<caller>}:tasks:busy` | zset | those with a turn in flight, likewise | context |
| `ns:{i<caller>}:tasks:coming` | zset | on a Cluster: tasks about to be listed, where a limit counts them | a minute |
| `ns:{i<caller>}:tasks:revs` | zset | on a Cluster: the revision of each task's latest note | context |
| `ns:{i<caller>}:rate` | zset | the caller's requests of the last second, where a limit counts them | a second |

Channels: `ns:w:<worker>` (cancel, push), `ns:t:<task>` (something happened: look).
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from hashlib import blake2b, sha1
from uuid import NAMESPACE_OID

from stores.lean import lean

_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)


def _digest(*parts: str, size: int = 16) -> str:
    """A hash of the parts, each with its length, so that no two lists of parts run together."""
    whole = b"".join([b"%d:%b" % (len(raw), raw) for raw in map(str.encode, parts)])
    return blake2b(whole, digest_size=size).hexdigest()


@lean
@dataclass(frozen=True, slots=True)
class ContextRef:
    """One context of one caller. `tag` only picks the slot; `cid` is the identity."""

    tag: str
    caller: str
    cid: str

    @classmethod
    def of(cls, caller: str, context_id: str) -> ContextRef:
        return cls(_digest(context_id, size=6), caller, _digest(caller, context_id))

    @property
    def text(self) -> str:
        return f"{self.tag}:{self.caller}:{self.cid}"

    def message(self, message_id: str) -> str:
        """The message's identity within the context."""
        return _digest(self.cid, message_id)


@lean
@dataclass(frozen=True, slots=True)
class TurnRef:
    """One entry of a worker's turn list: enough to find the context and the task."""

    context: ContextRef
    task_id: str

    @property
    def text(self) -> str:
        return f"{self.context.text}:{self.task_id}"

    @classmethod
    def parse(cls, text: str) -> TurnRef:
        tag, caller, cid, task_id, *_nonce = text.split(":")
        return cls(ContextRef(tag, caller, cid), task_id)


@lean
@dataclass(frozen=True, slots=True)
class DeliveryRef:
    """A task whose callbacks are to be served; its id finds the slot."""

    caller: str
    task_id: str

    @property
    def text(self) -> str:
        return f"{self.caller}:{self.task_id}"

    @property
    def tag(self) -> str:
        return self.task_id[-12:].lower()

    @classmethod
    def parse(cls, text: str) -> DeliveryRef:
        caller, task_id = text.split(":")
        return cls(caller, task_id)


def parse_context(text: str) -> ContextRef:
    tag, caller, cid = text.split(":")
    return ContextRef(tag, caller, cid)


def new_task_id(context: ContextRef) -> str:
    """A UUID of version 8: 48 bits of time, 26 random bits, and the context's tag, so that the id finds its keys."""
    ms = int(time.time() * 1000) & 0xFFFFFFFFFFFF
    noise = int.from_bytes(os.urandom(4))
    head = f"{ms:012x}"
    return f"{head[:8]}-{head[8:]}-8{noise & 0xFFF:03x}-{0x8000 | (noise >> 12) & 0x3FFF:04x}-{context.tag}"


def new_uuid() -> str:
    """A random UUID (version 4), without the object that the library makes of it."""
    digits = os.urandom(16).hex()
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )


def derived_uuid(text: str) -> str:
    """The UUID of version 5 that a text always has, likewise."""
    digits = sha1(NAMESPACE_OID.bytes + text.encode(), usedforsecurity=False).hexdigest()
    return (
        f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:32]}"
    )


def tag_of_task(task_id: str) -> str | None:
    """The slot tag inside a task id, or None when the text can't be an id of ours."""
    return task_id[-12:].lower() if _UUID.match(task_id) else None


def is_uuid(text: str) -> bool:
    return bool(_UUID.match(text))


def derived_context_id(caller: str, message_id: str) -> str:
    """The context of a first message without one, the same for each retry of it."""
    raw = _digest("context", caller, message_id)
    return f"{raw[:8]}-{raw[8:12]}-8{raw[13:16]}-{0x8 | int(raw[16], 16) & 0x3:x}{raw[17:20]}-{raw[20:]}"


class Keys:
    """Key names of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.live = f"{namespace}:{{live}}:contexts"
        self.fleet = f"{namespace}:{{fleet}}:"
        self.workers = f"{self.fleet}workers"
        self.ready = f"{self.fleet}ready"
        self.undelivered = f"{self.fleet}undelivered"
        self.letters = f"{self.fleet}letters"
        self.generation = f"{self.fleet}generation"
        self.schema = f"{self.fleet}schema"
        self.task_channel = f"{namespace}:t:"
        self.worker_channel = f"{namespace}:w:"

    def prefix(self, tag: str) -> str:
        return f"{self.namespace}:{{{tag}}}:"

    def context(self, ref: ContextRef) -> str:
        return f"{self.namespace}:{{{ref.tag}}}:c:{ref.cid}"

    def queue(self, ref: ContextRef) -> str:
        return f"{self.namespace}:{{{ref.tag}}}:q:{ref.cid}"

    def shelf(self, ref: ContextRef) -> str:
        return f"{self.namespace}:{{{ref.tag}}}:x:{ref.cid}"

    def message(self, ref: ContextRef, mid: str) -> str:
        return f"{self.namespace}:{{{ref.tag}}}:m:{mid}"

    def outcome(self, ref: ContextRef, mid: str) -> str:
        return f"{self.namespace}:{{{ref.tag}}}:o:{mid}"

    def task(self, tag: str, caller: str, task_id: str) -> str:
        return f"{self.namespace}:{{{tag}}}:t:{caller}:{task_id}"

    def log(self, tag: str, caller: str, task_id: str) -> str:
        return f"{self.namespace}:{{{tag}}}:e:{caller}:{task_id}"

    def push(self, tag: str, caller: str, task_id: str) -> str:
        return f"{self.namespace}:{{{tag}}}:p:{caller}:{task_id}"

    def index(self, caller: str) -> str:
        return f"{self.namespace}:{{i{caller}}}:tasks"

    def rate(self, caller: str) -> str:
        return f"{self.namespace}:{{i{caller}}}:rate"

    def beat(self, worker: str) -> str:
        return f"{self.fleet}beat:{worker}"

    def turns(self, worker: str) -> str:
        return f"{self.fleet}turns:{worker}"

    def deliveries(self, worker: str) -> str:
        return f"{self.fleet}deliveries:{worker}"

    def tombstone(self, worker: str) -> str:
        return f"{self.fleet}reaped:{worker}"
