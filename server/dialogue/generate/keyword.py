"""The default generator: keywords, lexicons and typed extraction; the same message always gives the same commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from server.dialogue.commands import (
    NOT_SUPPORTED,
    CancelFlow,
    CannotHandle,
    ChitChat,
    Clarify,
    Command,
    HumanHandoff,
    RepeatBotMessages,
    SetSlot,
    SkipQuestion,
    StartFlow,
)
from server.dialogue.generate.corrections import CorrectionReader
from server.dialogue.generate.extract import Extractor, Found, Message
from server.dialogue.generate.language import Hit, Language, english
from server.dialogue.generate.scores import Score, ScoreTable
from server.dialogue.generate.situation import Situation
from server.dialogue.loader import Project
from server.dialogue.plan import CONTINUE, RESUME
from server.dialogue.slots import Slot, SlotType

_TYPED = frozenset({SlotType.BOOL, SlotType.FLOAT, SlotType.CATEGORICAL})
# What can be said at any time, whatever is being asked.
_ANYTIME = ("human", "repeat", "skip", "cancel", "correction", "correction_weak")
# A text answer that is longer than this, or a question, may be a digression instead.
_SHORT_ANSWER = 3
_LONG_ANSWER = 2
_MAX_OPTIONS = 3


@dataclass(frozen=True, slots=True)
class KeywordSettings:
    """The pipeline entry `KeywordCommandGenerator`."""

    start_threshold: float = 1.0
    weak_threshold: float = 0.5
    clarify_margin: float = 0.5
    keywords: Mapping[str, list[str]] = field(default_factory=dict)
    synonyms: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    lexicon: Mapping[str, Sequence[str]] = field(default_factory=dict)


class KeywordGenerator:
    """Tries the readings of a message in a fixed order; the first that fits wins."""

    def __init__(self, project: Project, settings: KeywordSettings | None = None) -> None:
        self._settings = settings or KeywordSettings()
        self._language: Language = english(self._settings.lexicon)
        self._table = ScoreTable(project.flows, project.examples, self._settings.keywords, self._language)
        self._extractor = Extractor(project.domain, project.flows, self._language, self._settings.synonyms)
        self._corrections = CorrectionReader(self._language, self._extractor)
        self._cues = frozenset[str]().union(*(self._language.lexicon[key].firsts for key in _ANYTIME))

    async def generate(self, situation: Situation, text: str, flow: str | None = None) -> list[Command]:
        return self.read(situation, text, flow)

    async def aclose(self) -> None:
        """Nothing is open."""

    def read(self, situation: Situation, text: str, flow: str | None = None) -> list[Command]:
        message = Message.of(text)
        if flow is not None:
            return [StartFlow(flow), *self._prefill(situation, flow, message)]
        answers_exactly = self._answers_exactly(situation, message)
        # Most messages have no word of these lists, and need not be looked at for each of them.
        cued = not answers_exactly and not self._cues.isdisjoint(message.vocabulary)
        if cued:
            commands = self._service(situation, message) or self._cancel(situation, message)
            if commands:
                return commands
        if not answers_exactly and situation.state.options:
            commands = self._choice(situation, message)
            if commands:
                return commands
        ranked = self._table.rank(message.words, situation)
        if cued:
            elsewhere = bool(ranked) and ranked[0].value >= self._settings.start_threshold
            commands = self._corrections.read(situation, message, other_flow=elsewhere)
            if commands:
                return commands
        return (
            self._answer(situation, message, ranked)
            or self._start(situation, message, ranked)
            or self._small_talk(situation, message)
            or [self._cannot_handle(situation, message)]
        )

    # -- one reading each, in order ------------------------------------------------------------------------------

    def _answers_exactly(self, situation: Situation, message: Message) -> bool:
        """ "stop" is an answer when it is one of the asked slot's values."""
        if situation.asked is None:
            return False
        return self._extractor.exact_category(situation.domain.slots[situation.asked.target], message)

    def _service(self, situation: Situation, message: Message) -> list[Command]:
        if self._says("human", message):
            return [HumanHandoff()]
        if self._says("repeat", message):
            return [RepeatBotMessages()]
        if situation.asked is not None and self._says("skip", message):
            return [SkipQuestion()]
        return []

    def _cancel(self, situation: Situation, message: Message) -> list[Command]:
        hit = self._cancel_phrase(message)
        if hit is None:
            return []
        threshold = self._settings.start_threshold
        if situation.active is None:
            if situation.asked is None or situation.asked.target != CONTINUE:
                return []
            ranked = self._table.rank(message.words, situation)
            return [] if ranked and ranked[0].value >= threshold else [CancelFlow()]
        own = self._table.named_by.get(situation.active.flow, frozenset())
        verb = set(self._language.stems(message.words[hit.first : hit.last]))
        said = set(self._language.stems(message.words))
        for score in self._table.rank(message.words, situation):
            strong = self._table.strong_of[score.flow]
            if score.value >= threshold and verb & strong and ((said & strong) - verb) - own:
                return [StartFlow(score.flow), *self._prefill(situation, score.flow, message)]
        rest = message.words[: hit.first] + message.words[hit.last :]
        rest = [w for w in rest if w.text not in self._language.fillers and self._language.stem(w.text) not in own]
        ranked = self._table.rank(rest, situation)
        if ranked and ranked[0].value >= threshold:
            return [CancelFlow(), StartFlow(ranked[0].flow), *self._prefill(situation, ranked[0].flow, message)]
        return [CancelFlow()]

    def _choice(self, situation: Situation, message: Message) -> list[Command]:
        """The last turn offered flows: the message picks one of them."""
        options = [option for option in situation.state.options if situation.can_start(option)]
        if not options:
            return []
        ranked = self._table.rank_options(message.words, options)
        chosen: str | None = None
        if ranked[0].value > 0 and (len(ranked) == 1 or ranked[0].value > ranked[1].value):
            chosen = ranked[0].flow
        elif (position := self._extractor.ordinal(message, len(options))) is not None:
            chosen = options[position]
        elif len(options) == 1 and (agrees := self._extractor.yes_or_no(message)) is not None and agrees.value:
            chosen = options[0]
        return [StartFlow(chosen), *self._prefill(situation, chosen, message)] if chosen else []

    def _answer(self, situation: Situation, message: Message, ranked: list[Score]) -> list[Command]:
        if situation.asked is None:
            return []
        slot = situation.domain.slots[situation.asked.target]
        if slot.controlled:
            return []
        if slot.name == RESUME:
            return self._resume(situation, message)
        if slot.type is SlotType.TEXT and self._is_no_answer(situation, message, ranked):
            return []
        found = self._extractor.answer(slot, message)
        if found is None:
            return []
        commands: list[Command] = [SetSlot(slot.name, found.value)]
        message.used.append(found.span)
        if slot.type in _TYPED and (rest := message.rest()):
            others = self._table.rank(rest, situation)
            if others and others[0].value >= self._settings.start_threshold:
                start: list[Command] = [StartFlow(others[0].flow)]
                return commands + start + self._prefill(situation, others[0].flow, message)
        return commands + self._more_answers(situation, message, slot.name)

    def _resume(self, situation: Situation, message: Message) -> list[Command]:
        """ "Shall we go on?" is also answered by going on."""
        commands: list[Command] = []
        said = self._extractor.yes_or_no(message)
        if said is not None:
            commands.append(SetSlot(RESUME, said.value))
            message.used.append(said.span)
        if situation.pending is not None and (said is None or said.value):
            slot = situation.domain.slots[situation.pending.target]
            found = self._extractor.mention(slot, message) if slot.type in _TYPED else None
            if found is not None:
                commands.append(SetSlot(slot.name, found.value))
        if not commands and situation.active is not None:
            own = self._table.rank_options(message.words, [situation.active.flow])
            if own[0].value >= self._settings.start_threshold and not self._is_question(message):
                commands.append(SetSlot(RESUME, True))
        return commands

    def _start(self, situation: Situation, message: Message, ranked: list[Score]) -> list[Command]:
        settings = self._settings
        if not ranked:
            return []
        best = ranked[0]
        if best.value >= settings.start_threshold:
            rivals = [
                score.flow
                for score in ranked
                if score.value >= settings.start_threshold and best.value - score.value < settings.clarify_margin
            ]
        elif situation.active is None:
            rivals = [score.flow for score in ranked if score.value >= settings.weak_threshold]
        else:
            rivals = []
        if len(rivals) > 1:
            return [Clarify(tuple(rivals[:_MAX_OPTIONS]))]
        return [StartFlow(rivals[0]), *self._prefill(situation, rivals[0], message)] if rivals else []

    def _small_talk(self, situation: Situation, message: Message) -> list[Command]:
        asked = situation.asked.target if situation.asked else ""
        if asked == CONTINUE and self._says("closing", message):
            return [SetSlot(CONTINUE, False)]
        return [ChitChat()] if self._says("chitchat", message) else []

    def _cannot_handle(self, situation: Situation, message: Message) -> CannotHandle:
        idle = situation.active is None
        return CannotHandle(NOT_SUPPORTED if idle and len(self._language.stems(message.words)) >= 2 else None)

    # -- helpers -------------------------------------------------------------------------------------------------

    def _prefill(self, situation: Situation, flow: str, message: Message) -> list[Command]:
        """Values for the flow that starts, each part of the message used once, in the order of asking."""
        commands: list[Command] = []
        scope = situation.scopes[flow]
        for name in scope.collects:
            if name in scope.asked_first:
                continue
            found = self._mention(situation.domain.slots[name], message)
            if found is not None:
                commands.append(SetSlot(name, found.value))
        return commands

    def _more_answers(self, situation: Situation, message: Message, asked: str) -> list[Command]:
        if len(message.words) <= _LONG_ANSWER or situation.active is None:
            return []
        scope = situation.scopes[situation.active.flow]
        commands: list[Command] = []
        for name in scope.collects:
            if name == asked or name in scope.asked_first or situation.slots.get(name) is not None:
                continue
            found = self._mention(situation.domain.slots[name], message)
            if found is not None:
                commands.append(SetSlot(name, found.value))
        return commands

    def _mention(self, slot: Slot, message: Message) -> Found | None:
        if slot.controlled or slot.builtin:
            return None
        found = self._extractor.mention(slot, message)
        if found is not None:
            message.used.append(found.span)
        return found

    def _is_no_answer(self, situation: Situation, message: Message, ranked: list[Score]) -> bool:
        """A text question accepts almost anything, so what clearly means something else is taken out first."""
        elsewhere = bool(ranked) and ranked[0].value >= self._settings.start_threshold
        if elsewhere and (self._is_question(message) or len(message.words) > _SHORT_ANSWER):
            return True
        if situation.active is None:
            return False
        flow = situation.active.flow
        if self._table.is_example_of(message.words, flow):
            return True
        stems = self._language.stems(message.words)
        return bool(stems) and stems.keys() <= self._table.named_by.get(flow, frozenset())

    def _is_question(self, message: Message) -> bool:
        if message.text.rstrip().endswith("?"):
            return True
        return bool(message.words) and message.words[0].text in self._language.questions

    def _says(self, key: str, message: Message) -> bool:
        """A phrase of several words counts anywhere, a single word only when it is all that is said."""
        words = message.words
        for hit in message.phrases(self._language.lexicon[key]):
            if hit.length > 1 or self._language.is_padding(words[: hit.first] + words[hit.last :]):
                return True
        return False

    def _cancel_phrase(self, message: Message) -> Hit | None:
        """At the beginning or the end of the message, and not "don't stop"."""
        words = message.words
        for hit in message.phrases(self._language.lexicon["cancel"]):
            negated = hit.first > 0 and words[hit.first - 1].text in self._language.negations
            if not negated and (
                self._language.is_padding(words[: hit.first]) or self._language.is_padding(words[hit.last :])
            ):
                return hit
        return None
