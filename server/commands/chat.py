"""`nonstick chat`: a conversation in the terminal with any A2A 1.0 server."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from server.commands.remote import Cursor, Json, Refused, Remote, Unreachable, user_message

HELP = """\
  /new        begin another conversation
  /cancel     cancel the task that waits for an answer
  /slots      show what the assistant has noted down
  /help       show this
  /quit       leave (Ctrl-D does, too)
  1, 2, …     choose one of the buttons just shown
  Ctrl-C      cancel the running task; once more, or while nothing runs, leave
  Anything else is sent as it is; begin with // to send a text that begins with /."""
WAITING = ("input_required", "auth_required")


@dataclass(slots=True)
class Conversation:
    """What is known of the talk so far."""

    context_id: str
    task_id: str = ""  # the task that waits for an answer
    slots: Json = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)  # title and what choosing it sends


def chat(url: str, *, context: str | None, token: str | None, api_key: str | None, insecure: bool) -> int:
    remote = Remote(url, token=token, api_key=api_key, verify=not insecure)
    try:
        card = remote.card()
        _greet(card, url)
        return Chat(remote, context).run()
    except Unreachable as error:
        print(f"{error}\nIs it running? `nonstick run --assistant examples/bank` starts one.", file=sys.stderr)
        return 1
    finally:
        remote.close()


class Chat:
    """Reads lines, sends them, shows what comes back."""

    def __init__(self, remote: Remote, context: str | None) -> None:
        self._remote = remote
        self._talk = Conversation(context or str(uuid.uuid4()))
        self._typed = sys.stdin.isatty()
        self._failed = False
        print(f"This is conversation {self._talk.context_id}; --context takes it up again.\n", flush=True)

    def run(self) -> int:
        while True:
            try:
                line = self._read()
            except (EOFError, KeyboardInterrupt):
                print()
                break
            if line == "/quit":
                break
            if not line:
                continue
            try:
                if not self._obey(line):
                    self._say(self._meant(line))
            except Refused as refused:
                self._failed = True
                print(f"  The server refuses: {refused}", file=sys.stderr, flush=True)
            except KeyboardInterrupt:
                print()
                break
        return 1 if self._failed and not self._typed else 0

    def _read(self) -> str:
        line = input("you> " if self._typed else "")
        if not self._typed:
            print(f"you> {line}", flush=True)
        return line.strip()

    def _obey(self, line: str) -> bool:
        """Whether the line was meant for this program."""
        match line:
            case "/help":
                print(HELP)
            case "/new":
                self._talk = Conversation(str(uuid.uuid4()))
                print(f"  This is conversation {self._talk.context_id}.")
            case "/slots":
                shown = [f"  {name} = {_value(value)}" for name, value in self._talk.slots.items()]
                print("\n".join(shown) or "  Nothing is noted down.")
            case "/cancel":
                self._cancel_waiting()
            case _ if line.startswith("/") and not line.startswith("//") and "(" not in line:
                print(f"  {line} is no command; /help shows what there is.")
            case _:
                return False
        sys.stdout.flush()
        return True

    def _meant(self, line: str) -> str:
        """The text to send: a number chooses a button."""
        if line.isdecimal() and 1 <= int(line) <= len(self._talk.buttons):
            return self._talk.buttons[int(line) - 1][1]
        return line.removeprefix("/") if line.startswith("//") else line

    def _cancel_waiting(self) -> None:
        if not self._talk.task_id:
            print("  Nothing waits for an answer.")
            return
        task_id, self._talk.task_id = self._talk.task_id, ""
        task = self._remote.cancel(task_id)
        Answer(self._talk).show("task", task)

    def _say(self, text: str) -> None:
        talk = self._talk
        answering, talk.task_id, talk.buttons = talk.task_id, "", []
        answer, cursor = Answer(talk), Cursor()
        message = user_message(text, talk.context_id, answering)
        try:
            answer.follow(self._remote.stream(message, cursor))
        except KeyboardInterrupt:
            self._stop(answer, cursor)
        except Refused as refused:
            if not answering or refused.reason not in ("TASK_NOT_FOUND", "UNSUPPORTED_OPERATION"):
                raise
            # The task we answered is over: somebody else ended it, or it lapsed.
            answer.follow(self._remote.stream(user_message(text, talk.context_id, None), cursor))

    def _stop(self, answer: Answer, cursor: Cursor) -> None:
        """Cancels what runs; a second Ctrl-C meanwhile leaves."""
        if not cursor.task_id:
            raise KeyboardInterrupt
        print("\n  Canceling… (Ctrl-C again leaves)", flush=True)
        try:
            self._remote.cancel(cursor.task_id)
        except Refused as refused:
            print(f"  Too late: {refused}", flush=True)
        answer.follow(self._remote.rest(cursor))


class Answer:
    """Shows one turn as it comes."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self._streamed = ""
        self._open = False  # a line was begun and not ended

    def follow(self, events: Iterable[Json]) -> None:
        for event in events:
            self.show(event["kind"], event["body"])

    def show(self, kind: str, body: Json) -> None:
        match kind:
            case "artifactUpdate":
                self._show_piece(body["artifact"]["parts"])
            case "statusUpdate":
                self._show_status(body, body["taskId"])
            case "task" if body["status"]["state"] not in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
                self._show_status(body, body["id"])
            case "message":
                self._line(_text(body["parts"]))
            case _:
                pass

    def _show_piece(self, parts: list[Json]) -> None:
        for part in parts:
            if text := part.get("text"):
                if not self._open:
                    print("bot> ", end="")
                print(text, end="", flush=True)
                self._open = True
                self._streamed += text
            elif "data" in part:
                self._note(_value(part["data"]))

    def _show_status(self, body: Json, task_id: str) -> None:
        state = body["status"]["state"].removeprefix("TASK_STATE_").lower()
        parts = (body["status"].get("message") or {}).get("parts") or []
        text = _text(parts)
        if state == "working":
            if text:
                self._note(text)
            return
        self._end_line()
        # What was streamed is part of the final message, too.
        rest = text.removeprefix(self._streamed).strip() if self._streamed else text
        if rest:
            self._line(rest)
        self._talk.task_id = task_id if state in WAITING else ""
        self._show_data(state, [part["data"] for part in parts if isinstance(part.get("data"), dict)])

    def _show_data(self, state: str, data: list[Json]) -> None:
        facts = [state.replace("_", " ")]
        for one in data:
            if "state" in one and "slots" in one:
                self._talk.slots = dict(one["slots"])
                facts += _facts(one)
            else:
                self._show_extra(one)
        if state in ("failed", "rejected"):
            facts += [_value(one[key]) for one in data for key in ("error_type", "reason") if one.get(key)]
        self._note(" · ".join(facts))

    def _show_extra(self, extra: Json) -> None:
        for button in extra.get("buttons") or []:
            title = str(button.get("title", ""))
            self._talk.buttons.append((title, str(button.get("payload") or title)))
            print(f"     {len(self._talk.buttons)}) {title}")
        others = {key: value for key, value in extra.items() if key not in ("buttons", "quick_replies")}
        if others:
            self._note(_value(others))

    def _line(self, text: str) -> None:
        self._end_line()
        print("bot> " + textwrap.indent(text, "     ").lstrip(), flush=True)

    def _note(self, text: str) -> None:
        self._end_line()
        dim, plain = ("\033[2m", "\033[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
        print(f"     {dim}[{text}]{plain}", flush=True)

    def _end_line(self) -> None:
        if self._open:
            print()
            self._open = False


def _greet(card: Json, url: str) -> None:
    print(f"{card['name']} {card.get('version', '')} at {url}")
    if card.get("description"):
        print(card["description"])
    skills = [one for one in card.get("skills", []) if "conversation-repair" not in one.get("tags", [])]
    if skills:
        print(f"It can: {', '.join(str(one.get('name') or one.get('id')) for one in skills)}.")
    example = next((text for one in skills for text in one.get("examples", [])), None)
    print((f'Begin with "{example}", for example. ' if example else "") + "/help shows what else you can type.")


def _facts(data: Json) -> list[str]:
    facts = [f"flow {data['active_flow']}"] if data.get("active_flow") else []
    if data.get("canceled_flow"):
        facts.append(f"canceled {data['canceled_flow']}")
    slots = [f"{name}={_value(value)}" for name, value in data["slots"].items()]
    return [*facts, " ".join(slots)] if slots else facts


def _text(parts: list[Json]) -> str:
    return "\n".join(str(part["text"]) for part in parts if part.get("text"))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
