"""A small assistant whose action waits for a gate, in a folder that a test may rewrite."""

from __future__ import annotations

from pathlib import Path

FLOWS = """\
flows:
  order_tea:
    name: order tea
    description: Order a pot of tea.
    nlu_trigger: [{intent: order_tea}]
    persisted_slots: [kind]
    steps:
      - collect: kind
      - action: action_brew
      - collect: sugar
      - action: utter_served
"""

MORE = """\
  opening_hours:
    name: hear the opening hours
    description: Tell when the tea room is open.
    nlu_trigger: [{intent: opening_hours}]
    steps:
      - action: utter_hours
"""

DOMAIN = """\
session_config: {start_session_after_expiry: false}
actions: [action_brew]
slots:
  kind: {type: categorical, values: [green, black, slow]}
  sugar: {type: bool}
  brewed: {type: bool, mappings: [{type: controlled}]}
responses:
  utter_ask_kind: [{text: "Which tea?"}]
  utter_ask_sugar: [{text: "With sugar?"}]
  utter_served: [{text: "Here is your {kind} tea."}]
  utter_hours: [{text: "Always."}]
"""

NLU = """\
nlu:
  - {intent: order_tea, examples: "- order tea\\n- some tea please\\n"}
  - {intent: opening_hours, examples: "- when are you open\\n"}
"""

ACTIONS = '''\
"""Brews. The slow kind waits until a file opens the gate, and says that it does."""

import asyncio
import os
from pathlib import Path

from server.dialogue.sdk import Action, SlotSet

FOLDER = Path(os.environ.get("NONSTICK_TEST_FOLDER", "."))


class Brew(Action):
    def name(self):
        return "action_brew"

    async def run(self, dispatcher, tracker, domain):
        if tracker.get_slot("kind") == "slow":
            await dispatcher.stream_start()
            await dispatcher.stream_chunk(text="The water ")
            (FOLDER / f"brewing-{tracker.sender_id}").touch()
            while not (FOLDER / f"gate-{tracker.sender_id}").exists():
                await asyncio.sleep(0.01)
            await dispatcher.stream_chunk(text="boils.")
            await dispatcher.stream_end()
        return [SlotSet("brewed", True)]
'''

ENDPOINTS = "a2a_server: {description: Serves tea.}\n"


class TeaRoom:
    """The assistant's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.reset()

    def reset(self) -> None:
        for name, text in (
            ("flows.yml", FLOWS),
            ("domain.yml", DOMAIN),
            ("nlu.yml", NLU.replace('  - {intent: opening_hours, examples: "- when are you open\\n"}\n', "")),
            ("actions.py", ACTIONS),
            ("endpoints.yml", ENDPOINTS),
            ("config.yml", "assistant_id: tea room\n"),
        ):
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def add_hours(self) -> None:
        """One flow more; the old one stays as it was."""
        self.write("flows.yml", FLOWS + MORE)
        self.write("nlu.yml", NLU)

    def replace_tea(self) -> None:
        """Other flows altogether: what was running is not there any more."""
        self.write("flows.yml", "flows:\n" + MORE)
        self.write("nlu.yml", NLU)

    def break_it(self) -> None:
        self.write("flows.yml", FLOWS.replace("action_brew", "action_brev"))
