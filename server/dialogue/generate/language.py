"""Words, stems and phrases of one language, compiled from its data file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from server.dialogue.problems import Reporter
from server.dialogue.yamlfiles import parse_yaml

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_STEM_CACHE = 20_000

Phrase = tuple[str, ...]


class Word(NamedTuple):
    text: str  # lower case
    start: int
    end: int


class Hit(NamedTuple):
    """A phrase found in a message: word positions [first, last)."""

    first: int
    last: int
    length: int


@dataclass(slots=True)
class Lexicon:
    """Phrases by their first word, the longest first."""

    by_first: dict[str, list[Phrase]]
    firsts: frozenset[str]

    @classmethod
    def of(cls, phrases: Sequence[str]) -> Lexicon:
        by_first: dict[str, list[Phrase]] = {}
        for phrase in phrases:
            words = tuple(word.text for word in split(str(phrase)))
            if words:
                by_first.setdefault(words[0], []).append(words)
        for entries in by_first.values():
            entries.sort(key=len, reverse=True)
        return cls(by_first, frozenset(by_first))

    def at(self, words: Sequence[Word], position: int) -> Hit | None:
        """The longest phrase that starts at this word."""
        for phrase in self.by_first.get(words[position].text, ()):
            end = position + len(phrase)
            if tuple([word.text for word in words[position:end]]) == phrase:
                return Hit(position, end, len(phrase))
        return None

    def find(self, words: Sequence[Word]) -> list[Hit]:
        """All phrases of a message, left to right, not overlapping."""
        hits: list[Hit] = []
        position = 0
        while position < len(words):
            hit = self.at(words, position)
            if hit is None:
                position += 1
            else:
                hits.append(hit)
                position = hit.last
        return hits


@dataclass(slots=True)
class Language:
    stop_words: frozenset[str]
    fillers: frozenset[str]
    negations: frozenset[str]
    questions: frozenset[str]
    prepositions: frozenset[str]
    patience: frozenset[str]
    suffixes: tuple[tuple[str, str, int], ...]
    lexicon: dict[str, Lexicon]
    lead_ins: Lexicon
    numbers: dict[str, float]
    ordinals: dict[str, int]
    _stems: dict[str, str] = field(default_factory=dict)

    def stem(self, word: str) -> str:
        """What a word has in common with its other forms; the same rules for flows and messages."""
        known = self._stems.get(word)
        if known is None:
            if len(self._stems) > _STEM_CACHE:
                self._stems.clear()
            known = self._stems[word] = self._stem(word)
        return known

    def stems(self, words: Sequence[Word]) -> dict[str, None]:
        """The stems that can score, in order, each once."""
        known, stop_words = self._stems, self.stop_words
        return {known.get(text) or self.stem(text): None for text, _, _ in words if text not in stop_words}

    def is_padding(self, words: Sequence[Word]) -> bool:
        """Words that say nothing by themselves."""
        return all(word.text in self.fillers or word.text in self.stop_words for word in words)

    def _stem(self, word: str) -> str:
        if not word.isalpha():
            return word
        for suffix, replacement, left in self.suffixes:
            if word.endswith(suffix) and len(word) - len(suffix) >= left:
                word = word[: len(word) - len(suffix)] + replacement
                break
        if len(word) > 3 and word.endswith("e"):
            word = word[:-1]
        # cancelled -> cancell -> cancel; applied to every word, so both sides agree
        return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def split(text: str) -> list[Word]:
    """Lower-case words with their place in the text; apostrophes and hyphens inside a word belong to it."""
    folded = text.replace("’", "'")
    return [Word(match.group().lower(), match.start(), match.end()) for match in _WORD.finditer(folded)]


@lru_cache(maxsize=1)
def _english() -> Mapping[str, Any]:
    text = resources.files("server.dialogue.generate").joinpath("english.yml").read_text(encoding="utf-8")
    data = parse_yaml(text, Reporter(file="english.yml"))
    assert data is not None
    return data


def english(lexicon: Mapping[str, Sequence[str]] | None = None) -> Language:
    """The shipped language, with an assistant's own phrase lists in place of ours."""
    data = _english()
    phrases = {**data["lexicon"], **(lexicon or {})}
    return Language(
        stop_words=frozenset(data["stop_words"].split()),
        fillers=frozenset(data["fillers"].split()),
        negations=frozenset(data["negations"].split()),
        questions=frozenset(data["questions"].split()),
        prepositions=frozenset(data["prepositions"].split()),
        patience=frozenset(data["patience"].split()),
        suffixes=tuple((str(suffix), str(new), int(left)) for suffix, new, left in data["suffixes"]),
        lexicon={name: Lexicon.of(entries) for name, entries in phrases.items()},
        lead_ins=Lexicon.of(data["lead_ins"]),
        numbers={str(word): float(number) for word, number in data["numbers"].items()},
        ordinals={str(word): int(number) for word, number in data["ordinals"].items()},
    )
