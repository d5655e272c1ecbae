"""Custom actions: in this process, streaming, failing, and on an action server."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.dialogue.assistant import Assistant
from server.dialogue.sdk import CollectingDispatcher
from server.dialogue.settings import AssistantSettings
from tests.dialogue.builders import Talk, build, events, spoken
from tests.dialogue.fakes import Answer, Request, serving

DOMAIN = """
slots:
  found: {type: any, mappings: [{type: controlled}]}
  count: {type: float, mappings: [{type: controlled, run_action_every_turn: EVERY}]}
  name: {type: text}
responses:
  utter_found: [{text: "Found {found} for {who}."}]
  utter_jinja: [{text: "{{ 1 / 0 }}", metadata: {template: jinja}}]
actions: [action_x]
"""
FLOWS = """
flows:
  look:
    description: Look something up.
    steps:
      - action: action_x
      - action: utter_cannot_handle
"""
HEAD = """
from server.dialogue.sdk import *

class X(Action):
    def name(self):
        return "action_x"
"""


def looking(folder: Path, run: str, *, settings: AssistantSettings | None = None) -> Talk:
    """An assistant whose only flow runs `action_x` with this body."""
    body = "\n".join("    " + line for line in run.strip("\n").splitlines())
    domain = DOMAIN.replace(", run_action_every_turn: EVERY", "")
    return Talk(build(folder, settings, domain=domain, flows=FLOWS, actions=HEAD + body + "\n"))


async def test_an_async_action_sets_slots_and_speaks(tmp_path: Path) -> None:
    talk = looking(
        tmp_path,
        """
async def run(self, dispatcher, tracker, domain):
    dispatcher.utter_message(text="Hm.", buttons=[{"title": "a", "payload": "b"}])
    dispatcher.utter_message(response="utter_found", who="you")
    return [SlotSet("found", {"x": 1}), SlotSet("count", 3), SlotSet("nonsense", 1)]
""",
    )

    result = await talk.say("look")

    assert result.texts[:2] == ("Hm.", "Found None for you.")
    assert result.payloads[0] == {"buttons": [{"title": "a", "payload": "b"}]}
    assert result.data["slots"] == {"found": {"x": 1}, "count": 3.0}
    assert result.task_state == "completed"


async def test_a_plain_function_runs_beside_the_event_loop(tmp_path: Path) -> None:
    talk = looking(
        tmp_path,
        """
def run(self, dispatcher, tracker, domain):
    import threading
    return [SlotSet("found", threading.current_thread() is not threading.main_thread())]
""",
    )

    assert (await talk.say("look")).data["slots"]["found"] is True


async def test_an_action_sees_the_dialogue_but_can_not_change_it_behind_our_back(tmp_path: Path) -> None:
    talk = looking(
        tmp_path,
        """
async def run(self, dispatcher, tracker, domain):
    seen = [tracker.sender_id, tracker.latest_message["text"], tracker.get_slot("name"),
            tracker.latest_message["metadata"]["user"], sorted(domain["slots"]), tracker.stack[-1]["flow_id"]]
    tracker.slots["name"] = "Eve"
    tracker.stack.clear()
    return [SlotSet("found", seen)]
""",
    )

    result = await talk.say(
        "look", seed={"name": "Ann"}, sender_id="ctx", message_metadata={"user": "u1"}, request_metadata={"user": "u2"}
    )

    assert result.data["slots"]["found"] == ["ctx", "look", "Ann", "u1", ["count", "found", "name"], "look"]
    assert result.data["slots"]["name"] == "Ann"


async def test_chunks_go_out_at_once_and_are_one_message_in_the_end(tmp_path: Path) -> None:
    talk = looking(
        tmp_path,
        """
async def run(self, dispatcher, tracker, domain):
    await dispatcher.stream_start()
    await dispatcher.stream_chunk(text="one ")
    await dispatcher.stream_chunk(text="two", json_message={"k": 1})
    await dispatcher.stream_end()
    dispatcher.utter_message(text="between")
    await dispatcher.stream_chunk(text="left open")
    return []
""",
    )

    result = await talk.say("look")

    assert [(c.stream, c.text, c.last) for c in talk.chunks] == [
        (1, "one ", False),
        (1, "two", False),
        (1, "", True),
        (2, "left open", False),
        (2, "", True),
    ]
    assert result.texts[:3] == ("one two", "between", "left open")
    assert result.payloads[0] == {"custom": {"k": 1}}


async def test_nobody_has_to_listen_to_chunks(tmp_path: Path) -> None:
    dispatcher = CollectingDispatcher()

    await dispatcher.stream_chunk(text="a")
    dispatcher.cancel_stream()
    await dispatcher.stream_chunk(text="b")
    await dispatcher.stream_end()

    assert dispatcher.is_streaming_cancelled
    assert dispatcher.messages == [{"text": "a"}]
    with pytest.raises(ValueError, match="can't name a response"):
        await dispatcher.stream_chunk(response="utter_x")


@pytest.mark.parametrize(
    ("run", "error_type"),
    [
        ("async def run(self, d, t, domain):\n    raise RuntimeError('secret')", "action_failed"),
        ("def run(self, d, t, domain):\n    raise RuntimeError('secret')", "action_failed"),
        ("async def run(self, d, t, domain):\n    raise ActionExecutionRejection('action_x')", "action_rejected"),
        ("async def run(self, d, t, domain):\n    return ['event']", "action_failed"),
        ("async def run(self, d, t, domain):\n    return 7", "action_failed"),
        ("async def run(self, d, t, domain):\n    return [SlotSet('found', {1, 2})]", "action_failed"),
        ("async def run(self, d, t, domain):\n    d.utter_message(json_message={1, 2})", "action_failed"),
        (
            "async def run(self, d, t, domain):\n    d.utter_message(response='utter_found', json_message={1, 2})",
            "action_failed",
        ),
        ("async def run(self, d, t, domain):\n    d.utter_message(response='utter_nothing')", "no_response"),
        ("async def run(self, d, t, domain):\n    return [FollowupAction('action_y')]", "unknown_action"),
        ("async def run(self, d, t, domain):\n    d.utter_message(response=['x'])", "action_failed"),
        ("async def run(self, d, t, domain):\n    d.utter_message(response='utter_jinja')", "step_failed"),
    ],
)
async def test_a_failing_action_fails_the_turn_and_leaves_the_context_usable(
    tmp_path: Path, run: str, error_type: str
) -> None:
    talk = looking(tmp_path, run)

    result = await talk.say("look")

    assert (result.task_state, result.data["error_type"]) == ("failed", error_type)
    assert spoken(result)[-1] == "utter_internal_error_rasa"
    assert "secret" not in str(result.data)
    assert events(result, "flow_cancelled") == ["look"]
    assert (await talk.say("hello")).task_state == "input_required"


async def test_an_action_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    talk = looking(
        tmp_path,
        "async def run(self, d, t, domain):\n    import asyncio\n    await asyncio.sleep(5)",
        settings=AssistantSettings(action_timeout_seconds=0.02),
    )

    assert (await talk.say("look")).data["error_type"] == "action_timeout"


async def test_a_cancelled_turn_leaves_the_state_it_was_given(tmp_path: Path) -> None:
    talk = looking(tmp_path, "async def run(self, d, t, domain):\n    import asyncio\n    await asyncio.sleep(5)")
    before = (await talk.say("hello")).state_json
    running = asyncio.create_task(talk.say("look"))
    await asyncio.sleep(0.02)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert talk.state == before
    assert talk.assistant.cancel(before).task_state == "canceled"


@pytest.mark.parametrize(
    ("event", "check"),
    [
        ("AllSlotsReset()", lambda result: result.data["slots"] == {}),
        ("Restarted()", lambda result: events(result, "restart") == [""]),
        ("SessionEnded()", lambda result: events(result, "session_ended") == [""]),
        ("ConversationPaused()", lambda result: events(result, "pause") == [""]),
        ("BotUttered('hi', {'custom': {'a': 1}})", lambda result: result.texts[0] == "hi"),
        ("FollowupAction('utter_ask_rephrase')", lambda result: "utter_ask_rephrase" in result.keys),
        ("ActionExecuted('x')", lambda result: events(result, "ignored") == ["action"]),
    ],
)
async def test_events_an_action_may_return(tmp_path: Path, event: str, check: Any) -> None:
    talk = looking(tmp_path, f"async def run(self, d, t, domain):\n    return [{event}]")

    result = await talk.say("look", seed={"name": "Ann"})

    assert check(result), (result.events, result.texts)


async def test_an_action_of_every_turn_runs_every_turn(tmp_path: Path) -> None:
    domain = DOMAIN.replace("EVERY", "action_x")
    actions = (
        HEAD
        + """
    async def run(self, dispatcher, tracker, domain):
        return [SlotSet("count", (tracker.get_slot("count") or 0) + 1)]
"""
    )
    talk = Talk(build(tmp_path, domain=domain, flows=FLOWS, actions=actions))

    result = await talk.says("hello", "hello", "hello")

    assert result.data["slots"]["count"] == 3.0


async def test_a_class_with_the_name_of_a_default_action_replaces_it(tmp_path: Path) -> None:
    actions = (
        HEAD.replace("action_x", "action_handoff_metric")
        + """
    async def run(self, dispatcher, tracker, domain):
        dispatcher.utter_message(text="A person is coming.")
"""
    )
    talk = Talk(
        build(tmp_path, domain="slots: {}", flows=FLOWS.replace("action_x", "utter_cannot_handle"), actions=actions)
    )

    result = await talk.say("let me talk to a human")

    assert result.texts[0] == "A person is coming."


async def test_an_action_may_ask_the_question(tmp_path: Path) -> None:
    domain = "slots: {name: {type: text}}\nactions: [action_ask_name]\n"
    actions = (
        HEAD.replace("action_x", "action_ask_name")
        + """
    async def run(self, dispatcher, tracker, domain):
        dispatcher.utter_message(text="Your name?")
"""
    )
    flows = "flows:\n  greet: {description: Greet., steps: [{collect: name}]}"
    talk = Talk(build(tmp_path, domain=domain, flows=flows, actions=actions))

    asked = await talk.say("greet")
    done = await talk.say("Ann")

    assert (asked.texts, asked.task_state) == (("Your name?",), "input_required")
    assert done.task_state == "completed"


async def test_actions_written_for_rasa_sdk_run_as_they_are(tmp_path: Path) -> None:
    actions = """
    from typing import Any, Text
    from rasa_sdk import Action, Tracker
    from rasa_sdk.events import SlotSet
    from rasa_sdk.executor import CollectingDispatcher
    from rasa_sdk.types import DomainDict

    class X(Action):
        def name(self) -> Text:
            return "action_x"

        def run(self, dispatcher: CollectingDispatcher, tracker: Tracker, domain: DomainDict) -> list:
            return [SlotSet("found", tracker.get_slot("name"))]
    """
    domain = DOMAIN.replace(", run_action_every_turn: EVERY", "")
    talk = Talk(build(tmp_path, domain=domain, flows=FLOWS, actions=actions))

    assert (await talk.say("look", seed={"name": "Ann"})).data["slots"]["found"] == "Ann"


async def test_actions_may_be_a_package_and_a_reload_sees_new_code(tmp_path: Path) -> None:
    package = tmp_path / "actions"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "more.py").write_text(HEAD + "    async def run(self, d, t, x):\n        return [SlotSet('found', 1)]\n")
    domain = DOMAIN.replace(", run_action_every_turn: EVERY", "")
    old = build(tmp_path, domain=domain, flows=FLOWS)
    (package / "more.py").write_text(HEAD + "    async def run(self, d, t, x):\n        return [SlotSet('found', 2)]\n")
    new = Assistant.load(tmp_path)

    assert (await Talk(old).say("look")).data["slots"]["found"] == 1
    assert (await Talk(new).say("look")).data["slots"]["found"] == 2


def on_server(folder: Path, url: str, **endpoint: Any) -> Talk:
    settings = "".join(f", {name}: {value}" for name, value in endpoint.items())
    domain = DOMAIN.replace(", run_action_every_turn: EVERY", "")
    endpoints = f"action_endpoint: {{url: '{url}/webhook'{settings}}}"
    return Talk(build(folder, domain=domain, flows=FLOWS, endpoints=endpoints))


async def test_an_action_server_gets_the_tracker_and_its_answer_counts(tmp_path: Path) -> None:
    answer = {
        "events": [{"event": "slot", "name": "found", "value": "x"}, {"event": "rewind"}],
        "responses": [{"text": "Hm.", "buttons": []}, {"response": "utter_found", "who": "you"}, {}],
    }
    async with serving(lambda request: Answer(answer)) as fake:
        talk = on_server(tmp_path, fake.url)
        result = await talk.say("look", seed={"name": "Ann"}, sender_id="ctx")
        await talk.assistant.aclose()

    body = fake.requests[0].body
    assert (body["next_action"], body["sender_id"], fake.requests[0].path) == ("action_x", "ctx", "/webhook")
    assert body["tracker"]["slots"]["name"] == "Ann"
    assert body["tracker"]["latest_message"]["text"] == "look"
    assert "domain" not in body
    assert body["domain_digest"]
    assert result.texts[:2] == ("Hm.", "Found None for you.")
    assert result.data["slots"]["found"] == "x"


async def test_a_server_without_our_domain_gets_it_once(tmp_path: Path) -> None:
    def handler(request: Request) -> Answer:
        return Answer({"events": [], "responses": []}) if "domain" in request.body else Answer({}, status=449)

    async with serving(handler) as fake:
        talk = on_server(tmp_path, fake.url)
        result = await talk.say("look")
        await talk.assistant.aclose()

    assert result.task_state == "completed"
    assert len(fake.requests) == 2
    assert sorted(fake.requests[1].body["domain"]["slots"]) == ["count", "found", "name"]


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (Answer({"error": "no"}, status=400), "action_rejected"),
        (Answer({"error": "no"}, status=404), "unknown_action"),
        (Answer({"error": "no"}, status=500), "action_failed"),
        (Answer({}, status=302, headers={"location": "http://127.0.0.1:9/"}), "action_failed"),
        (Answer({}, status=449), "action_failed"),
        (Answer(b"<html>"), "action_failed"),
        (Answer({"events": ["x"]}), "action_failed"),
        (Answer([]), "action_failed"),
        (Answer(b"x" * 1_000_001), "action_failed"),
        (Answer(hang_up=True), "action_server_unreachable"),
        (Answer({}, delay=30), "action_timeout"),
    ],
    ids=["400", "404", "500", "redirect", "449 twice", "html", "bad event", "list", "huge", "hang up", "slow"],
)
async def test_a_misbehaving_server_fails_the_turn_and_is_not_asked_again(
    tmp_path: Path, answer: Answer, error_type: str
) -> None:
    async with serving(lambda request: answer) as fake:
        talk = on_server(tmp_path, fake.url, read_timeout=0.5)
        result = await talk.say("look")
        await talk.assistant.aclose()

    assert (result.task_state, result.data["error_type"]) == ("failed", error_type)
    assert len(fake.requests) == (2 if answer.status == 449 else 1)


async def test_a_server_that_is_not_there_fails_the_turn(tmp_path: Path) -> None:
    talk = on_server(tmp_path, "http://127.0.0.1:9")

    result = await talk.say("look")
    await talk.assistant.aclose()

    assert result.data["error_type"] == "action_server_unreachable"


async def test_the_real_action_server_understands_us(tmp_path: Path) -> None:
    pytest.importorskip("rasa_sdk", reason="rasa-sdk is not installed")
    (tmp_path / "their_actions.py").write_text(
        "from rasa_sdk import Action\n"
        "from rasa_sdk.events import SlotSet\n\n\n"
        "class X(Action):\n"
        "    def name(self):\n        return 'action_x'\n\n"
        "    def run(self, dispatcher, tracker, domain):\n"
        "        dispatcher.utter_message(response='utter_found', who='you')\n"
        "        return [SlotSet('found', [tracker.get_slot('name'), sorted(domain['slots'])])]\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rasa_sdk", "--actions", "their_actions", "--port", str(port), cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await _answers(f"http://127.0.0.1:{port}/health")
        talk = on_server(tmp_path / "assistant", f"http://127.0.0.1:{port}")
        result = await talk.say("look", seed={"name": "Ann"})
        again = await talk.say("look")
        await talk.assistant.aclose()
    finally:
        server.kill()
        await server.wait()

    assert result.data["slots"]["found"] == ["Ann", ["count", "found", "name"]], "the domain was asked for and sent"
    assert again.task_state == "completed"
    assert result.texts[0] == "Found None for you."


async def _answers(url: str) -> None:
    """Waits for a server of its own process to come up."""
    async with asyncio.timeout(30), httpx.AsyncClient() as client:
        while True:
            with suppress(httpx.HTTPError):
                if (await client.get(url)).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(0.1)
