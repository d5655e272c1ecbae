"""Which dialect answers which request, for every outcome of the version rules."""

from __future__ import annotations

import pytest

from server.protocol.errors import MethodUnknown, VersionUnsupported
from server.protocol.negotiate import dialect_for_error, negotiate, negotiate_rest, requested_extensions
from server.protocol.operations import Operation
from server.protocol.v0_3 import V0_3_DIALECT
from server.protocol.v1_0 import V1_0_DIALECT

METHODS_03 = {
    "message/send": Operation.SEND_MESSAGE,
    "message/stream": Operation.SEND_STREAMING_MESSAGE,
    "message/sendStream": Operation.SEND_STREAMING_MESSAGE,
    "tasks/get": Operation.GET_TASK,
    "tasks/cancel": Operation.CANCEL_TASK,
    "tasks/resubscribe": Operation.SUBSCRIBE_TO_TASK,
    "tasks/pushNotificationConfig/set": Operation.CREATE_PUSH_CONFIG,
    "tasks/pushNotificationConfig/get": Operation.GET_PUSH_CONFIG,
    "tasks/pushNotificationConfig/list": Operation.LIST_PUSH_CONFIGS,
    "tasks/pushNotificationConfig/delete": Operation.DELETE_PUSH_CONFIG,
    "agent/getAuthenticatedExtendedCard": Operation.GET_EXTENDED_CARD,
}
METHODS_10 = {
    "SendMessage": Operation.SEND_MESSAGE,
    "SendStreamingMessage": Operation.SEND_STREAMING_MESSAGE,
    "GetTask": Operation.GET_TASK,
    "ListTasks": Operation.LIST_TASKS,
    "CancelTask": Operation.CANCEL_TASK,
    "SubscribeToTask": Operation.SUBSCRIBE_TO_TASK,
    "CreateTaskPushNotificationConfig": Operation.CREATE_PUSH_CONFIG,
    "GetTaskPushNotificationConfig": Operation.GET_PUSH_CONFIG,
    "ListTaskPushNotificationConfigs": Operation.LIST_PUSH_CONFIGS,
    "ListTaskPushNotificationConfig": Operation.LIST_PUSH_CONFIGS,
    "DeleteTaskPushNotificationConfig": Operation.DELETE_PUSH_CONFIG,
    "GetExtendedAgentCard": Operation.GET_EXTENDED_CARD,
}


def test_the_method_sets_are_those_of_the_protocol() -> None:
    assert dict(V0_3_DIALECT.methods) == METHODS_03
    assert dict(V1_0_DIALECT.methods) == METHODS_10


@pytest.mark.parametrize("method", METHODS_03)
@pytest.mark.parametrize("header", [None, "", "  ", "0.3", "0.3.0", " 0.3 "])
@pytest.mark.parametrize("lenient", [True, False])
def test_methods_of_0_3_are_served_without_a_version_or_with_0_3(
    method: str, header: str | None, lenient: bool
) -> None:
    assert negotiate(method, header, None, lenient) == (V0_3_DIALECT, METHODS_03[method])


@pytest.mark.parametrize("method", METHODS_10)
@pytest.mark.parametrize("header", ["1.0", "1.0.0", "1.0.1", " 1.0 "])
@pytest.mark.parametrize("lenient", [True, False])
def test_methods_of_1_0_are_served_with_1_0(method: str, header: str, lenient: bool) -> None:
    assert negotiate(method, header, None, lenient) == (V1_0_DIALECT, METHODS_10[method])


@pytest.mark.parametrize("nothing", [None, "", " "])
def test_methods_of_1_0_without_a_version_are_a_matter_of_leniency(nothing: str | None) -> None:
    assert negotiate("SendMessage", nothing, nothing, True) == (V1_0_DIALECT, Operation.SEND_MESSAGE)
    with pytest.raises(VersionUnsupported, match=r"send 1\.0") as refused:
        negotiate("SendMessage", nothing, nothing, False)
    assert refused.value.details == {"requestedVersion": "0.3", "supportedVersions": "0.3,1.0"}


@pytest.mark.parametrize(
    ("method", "version"),
    [
        ("SendMessage", "0.3"),
        ("SendMessage", "0.3.0"),
        ("SendMessage", "1.7"),
        ("SendMessage", "0.5"),
        ("SendMessage", "2.0"),
        ("SendMessage", "abc"),
        ("SendMessage", "1"),
        ("SendMessage", "v1.0"),
        ("SendMessage", "01.0"),
        ("SendMessage", "1.0-rc1"),
        ("SendMessage", "1.0.0.0"),
        ("SendMessage", "\u0661.0"),
        ("message/send", "0.5"),
        ("message/send", "1.0"),
        ("message/send", "1.0.1"),
        ("unknown", "7.1"),
    ],
)
@pytest.mark.parametrize("lenient", [True, False])
def test_a_wrong_version_is_refused_by_name_whether_lenient_or_not(method: str, version: str, lenient: bool) -> None:
    with pytest.raises(VersionUnsupported) as refused:
        negotiate(method, version, None, lenient)
    assert refused.value.details == {"requestedVersion": version, "supportedVersions": "0.3,1.0"}


def test_the_query_counts_where_the_header_is_silent() -> None:
    assert negotiate("SendMessage", None, "1.0", False) == (V1_0_DIALECT, Operation.SEND_MESSAGE)
    assert negotiate("SendMessage", "", "1.0", False) == (V1_0_DIALECT, Operation.SEND_MESSAGE)
    assert negotiate("SendMessage", "1.0", "0.3", False) == (V1_0_DIALECT, Operation.SEND_MESSAGE)
    with pytest.raises(VersionUnsupported):
        negotiate("SendMessage", "0.3", "1.0", True)
    with pytest.raises(VersionUnsupported):
        negotiate("SendMessage", None, "0.3", True)


@pytest.mark.parametrize("method", ["", "sendmessage", "message/Send", "tasks/list", "SendMessage ", "x" * 1000])
def test_an_unknown_method_is_said_to_be_unknown(method: str) -> None:
    with pytest.raises(MethodUnknown) as refused:
        negotiate(method, None, None, True)
    assert refused.value.details == {"method": method[:64]}


def test_a_long_version_is_echoed_shortened() -> None:
    with pytest.raises(VersionUnsupported) as refused:
        negotiate("SendMessage", "9" * 5000, None, True)
    assert len(refused.value.details["requestedVersion"]) == 64
    assert len(refused.value.message) < 200


def test_http_json_is_1_0() -> None:
    assert negotiate_rest("1.0", None, False) is V1_0_DIALECT
    assert negotiate_rest(None, "1.0.1", False) is V1_0_DIALECT
    assert negotiate_rest(None, None, True) is V1_0_DIALECT


@pytest.mark.parametrize(
    ("header", "lenient"), [(None, False), ("0.3", True), ("0.3", False), ("2.0", True), ("x", True)]
)
def test_http_json_refuses_other_versions(header: str | None, lenient: bool) -> None:
    with pytest.raises(VersionUnsupported):
        negotiate_rest(header, None, lenient)


@pytest.mark.parametrize(
    ("method", "header", "query", "version"),
    [
        ("message/send", "1.0", None, "0.3"),
        ("SendMessage", "0.3", None, "1.0"),
        ("SendMessage", None, None, "1.0"),
        ("unknown", None, None, "0.3"),
        ("unknown", "1.0", None, "1.0"),
        ("unknown", None, "1.0", "1.0"),
        ("unknown", "2.5", None, "1.0"),
        ("unknown", "0.5", None, "0.3"),
        ("unknown", "abc", None, "0.3"),
        ("unknown", "9" * 5000, None, "1.0"),
        (None, None, None, "0.3"),
        (None, "1.0", None, "1.0"),
    ],
)
def test_an_error_is_rendered_in_the_dialect_of_the_request(
    method: str | None, header: str | None, query: str | None, version: str
) -> None:
    assert dialect_for_error(method, header, query).version == version


@pytest.mark.parametrize(
    ("headers", "uris"),
    [
        ([], ()),
        ([("A2A-Extensions", "")], ()),
        ([("A2A-Extensions", "urn:a")], ("urn:a",)),
        ([("X-A2A-Extensions", " urn:a ,urn:b,, ")], ("urn:a", "urn:b")),
        (
            [("a2a-extensions", "urn:b"), ("x-a2a-extensions", "urn:a,urn:b"), ("A2A-EXTENSIONS", "urn:c")],
            ("urn:b", "urn:a", "urn:c"),
        ),
        ([("Accept", "urn:a")], ()),
    ],
)
def test_extensions_are_read_under_both_names_each_once(headers: list[tuple[str, str]], uris: tuple[str, ...]) -> None:
    assert requested_extensions(headers) == uris


def test_each_dialect_echoes_extensions_under_its_own_name() -> None:
    assert V0_3_DIALECT.extensions_header == "X-A2A-Extensions"
    assert V1_0_DIALECT.extensions_header == "A2A-Extensions"
