"""How well a message fits each flow, by the words they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from server.dialogue.flows import Flow
from server.dialogue.generate.language import Language, Word, split
from server.dialogue.generate.situation import Situation

# A message that is one of a flow's examples beats any sum of words.
EXAMPLE_SCORE = 100.0


class Score(NamedTuple):
    flow: str
    value: float


class Term(NamedTuple):
    """The flows a stem speaks for."""

    strong: list[str]
    weak: list[str]


class ScoreTable:
    """Word tables of one assistant."""

    def __init__(
        self,
        flows: Mapping[str, Flow],
        examples: Mapping[str, tuple[str, ...]],
        keywords: Mapping[str, list[str]],
        language: Language,
    ) -> None:
        self._language = language
        self._terms: dict[str, Term] = {}
        self._examples: dict[tuple[str, ...], list[str]] = {}
        self.strong_of: dict[str, frozenset[str]] = {}
        self.named_by: dict[str, frozenset[str]] = {}
        for flow in flows.values():
            if flow.is_pattern or (flow.guard is not None and flow.guard.constant is False):
                continue
            named = self._stems([flow.id.replace("_", " ").replace("-", " "), flow.name, *keywords.get(flow.id, ())])
            sentences = [sentence for intent in flow.intents for sentence in examples.get(intent, ())]
            strong = named | self._stems(sentences)
            self.named_by[flow.id] = named
            self.strong_of[flow.id] = strong
            for stem in strong:
                self._terms.setdefault(stem, Term([], [])).strong.append(flow.id)
            for stem in self._stems([flow.description]) - strong:
                self._terms.setdefault(stem, Term([], [])).weak.append(flow.id)
            for sentence in sentences:
                key = _key(split(sentence))
                if key and flow.id not in self._examples.setdefault(key, []):
                    self._examples[key].append(flow.id)

    def rank(self, words: list[Word], situation: Situation) -> list[Score]:
        """Flows that could start, the best first; flows that run count as rivals for a word but are left out."""
        totals: dict[str, float] = {}
        for stem in self._language.stems(words):
            term = self._terms.get(stem)
            if term is None:
                continue
            share = 1.0
            rivals = [flow for flow in term.strong if situation.is_open(flow)]
            if not rivals:
                share = 0.5
                rivals = [flow for flow in term.weak if situation.is_open(flow)]
            for flow in rivals:
                totals[flow] = totals.get(flow, 0.0) + share / len(rivals)
        for flow in self._examples.get(_key(words), ()):
            if situation.is_open(flow):
                totals[flow] = totals.get(flow, 0.0) + EXAMPLE_SCORE
        if not totals:
            return []
        scores = [Score(flow, value) for flow, value in totals.items() if flow not in situation.running]
        scores.sort(key=lambda score: -score.value)
        return scores

    def rank_options(self, words: list[Word], options: list[str]) -> list[Score]:
        """Only among the flows that were offered."""
        totals = dict.fromkeys(options, 0.0)
        for stem in self._language.stems(words):
            rivals = [option for option in options if stem in self.strong_of.get(option, ())]
            for option in rivals:
                totals[option] += 1.0 / len(rivals)
        return sorted((Score(*item) for item in totals.items()), key=lambda score: -score.value)

    def is_example_of(self, words: list[Word], flow: str) -> bool:
        return flow in self._examples.get(_key(words), ())

    def _stems(self, texts: Iterable[str]) -> frozenset[str]:
        return frozenset(stem for text in texts for stem in self._language.stems(split(str(text))))


def _key(words: list[Word]) -> tuple[str, ...]:
    return tuple([word.text for word in words])
