"""Finds slot values in a message: numbers, categories, yes and no, names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from server.dialogue.domain import Domain
from server.dialogue.flows import Flow, StepKind
from server.dialogue.generate.language import Hit, Language, Lexicon, Word, split
from server.dialogue.slots import Slot, SlotType

# Digits glued to letters or hyphens are part of a code, and 12,50 could mean two things: neither is a number here.
_NUMBER = re.compile(
    r"(?<![\w\-.,])(?:[$€£¥]\s?)?(?P<number>-?(?:\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?))(?P<kilo>\s?k)?"
    r"(?![\w\-]|[.,]\d)",
    re.IGNORECASE,
)
_CAPITALISED = re.compile(r"[^\W\d_a-zß-ÿ][\w'’-]*(?:\s+[^\W\d_a-zß-ÿ][\w'’-]*)*")
_TYPO_LENGTH = 5
Span = tuple[int, int]


class Found(NamedTuple):
    value: Any
    span: Span


@dataclass(slots=True)
class Message:
    """A message being read: its words and what has been used up so far."""

    text: str
    words: list[Word]
    vocabulary: set[str]
    used: list[Span] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Message:
        words = split(text)
        return cls(text, words, {word.text for word in words})

    def phrases(self, lexicon: Lexicon) -> list[Hit]:
        """The lexicon's phrases in the message; most messages share no word with most lexicons."""
        return [] if lexicon.firsts.isdisjoint(self.vocabulary) else lexicon.find(self.words)

    def free(self, span: Span) -> bool:
        return all(span[1] <= start or span[0] >= end for start, end in self.used)

    def rest(self) -> list[Word]:
        """The words nothing has used yet."""
        if not self.used:
            return self.words
        return [word for word in self.words if self.free((word.start, word.end))]

    def masked(self, spans: list[Span]) -> Message:
        """The same message with some of it blanked out, places unchanged."""
        characters = list(self.text)
        for start, end in spans:
            characters[start:end] = " " * (end - start)
        return Message.of("".join(characters))


class Extractor:
    """Compiled for one domain: category forms and finders for slots with a pattern."""

    def __init__(
        self, domain: Domain, flows: dict[str, Flow], language: Language, synonyms: dict[str, dict[str, list[str]]]
    ) -> None:
        self._language = language
        self._forms: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
        self._finders: dict[str, re.Pattern[str]] = {}
        for slot in domain.slots.values():
            if slot.type is SlotType.CATEGORICAL:
                self._forms[slot.name] = _forms(slot, synonyms.get(slot.name, {}))
            elif slot.type is SlotType.TEXT:
                pattern = _pattern(slot, flows)
                if pattern is not None:
                    self._finders[slot.name] = pattern

    def answer(self, slot: Slot, message: Message) -> Found | None:
        """The value of the slot that was asked for."""
        match slot.type:
            case SlotType.BOOL:
                return self.yes_or_no(message)
            case SlotType.FLOAT:
                return self._number(message) or self._number_word(message)
            case SlotType.CATEGORICAL:
                return self._category(slot, message) or self._near_category(slot, message)
            case SlotType.TEXT:
                return self._pattern_match(slot, message) or self.free_text(message)
            case SlotType.ANY:
                stripped = message.text.strip()
                return Found(stripped, (0, len(message.text))) if stripped else None
            case SlotType.LIST:
                return None

    def mention(self, slot: Slot, message: Message) -> Found | None:
        """A value given without being asked: only what can hardly mean anything else."""
        match slot.type:
            case SlotType.FLOAT:
                return self._number(message)
            case SlotType.CATEGORICAL:
                return self._category(slot, message)
            case SlotType.TEXT:
                if slot.name in self._finders:
                    return self._pattern_match(slot, message)
                return self._name(message)
            case _:
                return None

    def yes_or_no(self, message: Message) -> Found | None:
        """A leading no always counts; a yes only when the rest of the message does not speak against it."""
        lexicon = self._language.lexicon
        words = message.words
        for start in range(len(words)):
            hit = lexicon["no"].at(words, start)
            if hit is not None:
                return Found(False, _span(words, hit))
            hit = lexicon["yes"].at(words, start)
            if hit is not None:
                return Found(True, _span(words, hit)) if self._agrees(message, hit) else None
            hit = lexicon["yes_alone"].at(words, start)
            if hit is not None and self._agrees(message, hit) and self._is_all(message, hit):
                return Found(True, _span(words, hit))
            if words[start].text not in self._language.fillers:
                return None
        return None

    def _agrees(self, message: Message, hit: Hit) -> bool:
        if "?" in message.text:
            return False
        rest = message.words[: hit.first] + message.words[hit.last :]
        if not rest:
            return True
        lexicon = self._language.lexicon
        against = ("no", "cancel", "correction", "correction_weak")
        return not any(lexicon[key].find(rest) for key in against) and not any(
            word.text in self._language.negations or word.text == "but" for word in rest
        )

    def _is_all(self, message: Message, hit: Hit) -> bool:
        """Nothing but padding and more of the same around a phrase."""
        words = list(message.words)
        agreeing = [*self._language.lexicon["yes"].find(words), *self._language.lexicon["yes_alone"].find(words)]
        covered = {position for other in agreeing for position in range(other.first, other.last)}
        return self._language.is_padding([word for position, word in enumerate(words) if position not in covered])

    def free_text(self, message: Message) -> Found | None:
        """The message without its opening words and outer punctuation."""
        start = 0
        while start < len(message.words):
            hit = self._language.lead_ins.at(message.words, start)
            if hit is None or hit.last >= len(message.words):
                break
            start = hit.last
        if start >= len(message.words):
            return None
        begin = message.words[start].start if start else 0
        value = message.text[begin:].strip().strip(".,;!?\"'“”").strip()
        return Found(value, (begin, len(message.text))) if value else None

    def exact_category(self, slot: Slot, message: Message) -> bool:
        forms = self._forms.get(slot.name)
        if not forms:
            return False
        words = tuple(word.text for word in message.words)
        return any(form == words for form, _ in forms)

    def ordinal(self, message: Message, count: int) -> int | None:
        """The position "the second one" points at, counted from zero; "just a second" points at none."""
        words = message.words
        for position, word in enumerate(words):
            number = self._language.ordinals.get(word.text)
            if number is None or number > count:
                continue
            patient = word.text in self._language.patience and position > 0 and words[position - 1].text in ("a", "one")
            if not patient and self._language.is_padding(words[:position] + words[position + 1 :]):
                return count - 1 if number < 0 else number - 1
        return None

    def _number(self, message: Message) -> Found | None:
        for match in _NUMBER.finditer(message.text):
            if message.free(match.span()):
                number = float(match.group("number").replace(" ", "").replace(",", ""))
                return Found(number * 1000 if match.group("kilo") else number, match.span())
        return None

    def _number_word(self, message: Message) -> Found | None:
        words = message.words
        for position, word in enumerate(words):
            number = self._language.numbers.get(word.text)
            following = words[position + 1].text if position + 1 < len(words) else ""
            if number is not None and following not in self._language.patience:
                return Found(number, (word.start, word.end))
        return None

    def _category(self, slot: Slot, message: Message) -> Found | None:
        """The one value that is named; two different ones are as good as none."""
        words = message.words
        found: Found | None = None
        taken: list[Span] = []
        for form, value in self._forms.get(slot.name, ()):
            size = len(form)
            for start in range(len(words) - size + 1):
                if words[start].text != form[0] or any(words[start + n].text != form[n] for n in range(1, size)):
                    continue
                span = (words[start].start, words[start + size - 1].end)
                if not message.free(span) or any(span[0] >= a and span[1] <= b for a, b in taken):
                    continue
                if found is not None and found.value != value:
                    return None
                taken.append(span)
                found = found or Found(value, span)
        return found

    def _near_category(self, slot: Slot, message: Message) -> Found | None:
        forms = self._forms.get(slot.name, ())
        if any(form[0] in message.vocabulary for form, _ in forms if len(form) == 1):
            return None  # values were named, but not one clearly
        for word in message.words:
            if len(word.text) >= _TYPO_LENGTH:
                near = {str(value): value for form, value in forms if len(form) == 1 and one_edit(word.text, form[0])}
                if len(near) == 1:
                    return Found(next(iter(near.values())), (word.start, word.end))
        position = self.ordinal(message, len(slot.values))
        return Found(slot.values[position], (0, len(message.text))) if position is not None else None

    def _pattern_match(self, slot: Slot, message: Message) -> Found | None:
        finder = self._finders.get(slot.name)
        match = finder.search(message.text[:1000]) if finder is not None else None
        if match is None or not match.group() or not message.free(match.span()):
            return None
        return Found(match.group(), match.span())

    def _name(self, message: Message) -> Found | None:
        for word in message.words:
            if word.text in self._language.prepositions:
                start = word.end
                while start < len(message.text) and message.text[start].isspace():
                    start += 1
                match = _CAPITALISED.match(message.text, start)
                if match is not None and message.free(match.span()):
                    return Found(match.group(), match.span())
        return None


def _span(words: list[Word], hit: Hit) -> Span:
    return words[hit.first].start, words[hit.last - 1].end


def one_edit(a: str, b: str) -> bool:
    """One letter changed, missing, added, or two neighbours swapped."""
    if a == b or abs(len(a) - len(b)) > 1:
        return a == b
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    x, y = a[start:], b[start:]
    if len(x) == len(y):
        return x[1:] == y[1:] or (x[:2] == y[1::-1] and x[2:] == y[2:])
    return x[1:] == y if len(x) > len(y) else x == y[1:]


def _forms(slot: Slot, synonyms: dict[str, list[str]]) -> list[tuple[tuple[str, ...], Any]]:
    forms: list[tuple[tuple[str, ...], Any]] = []
    for value in slot.values:
        spellings = [str(value), str(value).replace("_", " "), *synonyms.get(str(value), ())]
        for spelling in dict.fromkeys(spellings):
            words = tuple(word.text for word in split(str(spelling)))
            if words:
                forms.append((words, value))
    forms.sort(key=lambda form: len(form[0]), reverse=True)
    return forms


def _pattern(slot: Slot, flows: dict[str, Flow]) -> re.Pattern[str] | None:
    """A rejection's regular expression finds the value inside a sentence once its anchors are off."""
    rejections = list(slot.rejections)
    for flow in flows.values():
        for step in flow.steps.values():
            if step.kind is StepKind.COLLECT and step.target == slot.name:
                rejections.extend(step.rejections)
    for rejection in rejections:
        for name, source in rejection.condition.patterns:
            if name == slot.name and rejection.condition.text.lower().startswith("not"):
                body = source.removeprefix("^").removesuffix("$")
                try:
                    return re.compile(rf"(?<![\w-])(?:{body})(?![\w-])")
                except re.error:
                    return None
    return None
