"""Recognises that the user changes something said before: "sorry, I meant James"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from server.dialogue.commands import Command, SetSlot
from server.dialogue.generate.extract import Extractor, Found, Message
from server.dialogue.generate.language import Language
from server.dialogue.generate.situation import Situation
from server.dialogue.slots import Slot, SlotType

_TYPED = frozenset({SlotType.FLOAT, SlotType.CATEGORICAL, SlotType.BOOL})


@dataclass(frozen=True, slots=True)
class CorrectionReader:
    language: Language
    extractor: Extractor

    def read(self, situation: Situation, message: Message, *, other_flow: bool) -> list[Command]:
        """The corrected slot, or nothing; `other_flow` says that the words fit another flow well."""
        strong = message.phrases(self.language.lexicon["correction"])
        weak = message.phrases(self.language.lexicon["correction_weak"])
        cues = strong + weak
        if not cues or situation.active is None:
            return []
        filled = self._filled(situation)
        if not filled:
            return []
        spans = [(message.words[hit.first].start, message.words[hit.last - 1].end) for hit in cues]
        rest = message.masked(spans)
        named = self._named(filled, rest)
        if named is not None:
            return [SetSlot(named.name, self._value(named, rest))]
        for slot in filled:
            if slot.type in _TYPED and (found := self.extractor.mention(slot, rest)) is not None:
                return [SetSlot(slot.name, found.value)]
        return self._text(situation, filled, rest, strong=bool(strong), other_flow=other_flow)

    def _text(
        self, situation: Situation, filled: list[Slot], rest: Message, *, strong: bool, other_flow: bool
    ) -> list[Command]:
        asked = situation.domain.slots[situation.asked.target] if situation.asked else None
        if other_flow or (asked is not None and asked.type in _TYPED and self.extractor.answer(asked, rest)):
            return []
        if asked is not None and asked.type not in _TYPED and not strong:
            return []  # "actually Bob" answers the question
        value = self._plain(rest)
        if value is None:
            return []
        for slot in filled:
            if slot.type is SlotType.TEXT:
                found = self.extractor.mention(slot, rest)
                return [SetSlot(slot.name, found.value if found else value)]
        return []

    def _filled(self, situation: Situation) -> list[Slot]:
        """What the running flow has asked for and got, the newest first, without the open question."""
        assert situation.active is not None
        collects = situation.scopes[situation.active.flow].collects
        asked = situation.asked.target if situation.asked else ""
        return [
            situation.domain.slots[name]
            for name in reversed(situation.state.slots)
            if name in collects and name != asked and not situation.domain.slots[name].controlled
        ]

    def _named(self, filled: list[Slot], message: Message) -> Slot | None:
        stems = {self.language.stem(word.text) for word in message.words}
        best: Slot | None = None
        for slot in filled:
            parts = slot.name.replace("-", "_").split("_")
            complete = all(self.language.stem(part.lower()) in stems for part in parts if part)
            if complete and (best is None or len(slot.name) > len(best.name)):
                best = slot
        return best

    def _value(self, slot: Slot, message: Message) -> Any:
        """The new value of a slot that was named; None when only the slot was named."""
        parts = {self.language.stem(part.lower()) for part in slot.name.replace("-", "_").split("_")}
        name = [(word.start, word.end) for word in message.words if self.language.stem(word.text) in parts]
        rest = message.masked(name)
        found: Found | None = self.extractor.mention(slot, rest)
        if found is None and slot.type is SlotType.BOOL:
            found = self.extractor.yes_or_no(rest)
        return found.value if found is not None else self._plain(rest)

    def _plain(self, message: Message) -> str | None:
        """What is left without the words around it."""
        words = list(message.words)
        while words and (words[0].text in self.language.stop_words or words[0].text in self.language.fillers):
            words.pop(0)
        while words and words[-1].text in self.language.fillers:
            words.pop()
        if not words:
            return None
        return " ".join(message.text[words[0].start : words[-1].end].split())
