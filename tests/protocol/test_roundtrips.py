"""Whatever the model holds comes back from either dialect as it went in, as far as that dialect has words for it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given

from server.protocol.dialect import Dialect
from server.protocol.model import CreatePushConfig, Message, Part, PushConfig, SendMessage
from server.protocol.negotiate import DIALECTS
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v0_3_requests import DATA_PART_COMPAT
from server.protocol.v1_0 import V1_0_DIALECT
from server.protocol.views import TaskPush
from tests.protocol.strategies import messages, pushes, sends, tasks


def over_the_wire(value: Any) -> Any:
    """As bytes of JSON in plain ASCII, the form in which nothing breaks a line of an event stream."""
    written = json.dumps(value)
    assert written.isascii()
    return json.loads(written)


def resend(dialect: Dialect, message: Message) -> Message:
    """The message as a client of the dialect would send it back after having read it."""
    encoded = over_the_wire(dialect.encode_event(message, final=False))
    request = dialect.decode(Operation.SEND_MESSAGE, {"message": encoded.get("message", encoded)})
    assert isinstance(request, SendMessage)
    return request.message


def as_0_3_can_say(part: Part) -> Part:
    if part.kind in ("text", "data"):
        return replace(part, filename=None, media_type=None)
    return part


@given(messages)
def test_a_message_survives_1_0(message: Message) -> None:
    assert repr(resend(V1_0_DIALECT, message)) == repr(message)


@given(messages)
def test_a_message_survives_0_3(message: Message) -> None:
    sayable = replace(message, parts=tuple(as_0_3_can_say(part) for part in message.parts))
    assert repr(resend(V0_3_DIALECT, sayable)) == repr(sayable)


@given(sends)
def test_a_message_read_in_one_dialect_can_be_sent_in_the_other(send: SendMessage) -> None:
    sayable = replace(send.message, parts=tuple(as_0_3_can_say(part) for part in send.message.parts))
    assert repr(resend(V0_3_DIALECT, resend(V1_0_DIALECT, sayable))) == repr(sayable)


@given(pushes)
def test_a_push_config_survives_its_own_dialect(config: PushConfig) -> None:
    dialect = DIALECTS[config.dialect]
    if config.dialect == "1.0":
        config = replace(config, auth_schemes=config.auth_schemes[:1])
    encoded = over_the_wire(dialect.encode_result(Operation.GET_PUSH_CONFIG, TaskPush("t", config)))
    request = dialect.decode(Operation.CREATE_PUSH_CONFIG, encoded)
    assert request == CreatePushConfig("t", config)


@given(tasks)
def test_every_task_has_a_form_in_both_dialects(task: Any) -> None:
    old = over_the_wire(V0_3_DIALECT.encode_result(Operation.GET_TASK, task))
    new = over_the_wire(V1_0_DIALECT.encode_result(Operation.GET_TASK, task))
    assert old["id"] == new["id"] == task.id
    assert old["status"]["timestamp"] == new["status"]["timestamp"]
    assert old.get("metadata") == new.get("metadata")
    assert len(old.get("history", [])) == len(new.get("history", [])) == len(task.history)
    assert DATA_PART_COMPAT not in json.dumps(new)
