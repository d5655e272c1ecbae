"""Both libraries give up on a connection that is silent for 5 s, and nothing here changes that."""

from __future__ import annotations

import time

import pytest

from tests.interop.environments import INSTALL_SECONDS
from tests.interop.remote import ClientFailed, Sdk, Shown, new_id

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)

SILENCE = 7


def test_a_stream_is_kept_alive_through_7_s_of_silence(sdks: list[Sdk]) -> None:
    """All libraries at once, since each has to wait: the stream itself, and one that joined it on the other worker."""
    streams = [(sdk, sdk.a.stream(f"slow {SILENCE}")) for sdk in sdks]
    joined = [sdk.b.start("subscribe", task_id=stream.until("status")["id"]) for sdk, stream in streams]
    started = time.monotonic()

    for call in [*(stream for _, stream in streams), *joined]:
        assert call.result(SILENCE + 5)["text"] == f"slept for {SILENCE} s"
    assert time.monotonic() - started > SILENCE - 1


def test_a_client_that_gave_up_waiting_gets_the_outcome_by_sending_again(sdks: list[Sdk]) -> None:
    ids = [new_id() for _ in sdks]
    calls = [
        sdk.a.start("send", text="slow 5.5", message_id=message_id) for sdk, message_id in zip(sdks, ids, strict=True)
    ]

    for call in calls:
        with pytest.raises(ClientFailed) as failed:
            call.result()
        assert failed.value.about["type"] == "A2AClientTimeoutError"

    for sdk, message_id in zip(sdks, ids, strict=True):
        answer = once_it_is_over(sdk, message_id)
        assert (answer["state"], answer["text"]) == ("completed", "slept for 5.5 s")


def once_it_is_over(sdk: Sdk, message_id: str) -> Shown:
    """The answer to the same message on the other worker, asked for again as long as it is a conflict."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return sdk.b.send("slow 5.5", message_id=message_id)
        except ClientFailed as failed:
            if "409" not in failed.about["message"] or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
