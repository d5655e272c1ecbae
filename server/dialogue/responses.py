"""What the bot says: variations, their conditions, and filling slots into the text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import ChainableUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from server.dialogue.conditions import Condition
from server.dialogue.slots import show

CHANNEL = "a2a"
Render = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str]

# Templates are written by the flow's author; the sandbox is there because their variables hold what users typed.
SANDBOX = ImmutableSandboxedEnvironment(undefined=ChainableUndefined, autoescape=False)
SANDBOX.filters["show"] = show

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}\n]+)\}")


@dataclass(frozen=True, slots=True)
class Button:
    title: Render
    payload: Render


@dataclass(frozen=True, slots=True)
class Variation:
    text: Render | None
    buttons: tuple[Button, ...] = ()
    custom: Any = None
    image: str | None = None
    attachment: Any = None
    elements: Any = None
    condition: Condition | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """One key of the domain's responses; `ranked` holds groups of variations, the preferred group first."""

    key: str
    ranked: tuple[tuple[Variation, ...], ...]

    def pick(
        self, slots: Mapping[str, Any], context: Mapping[str, Any], rng: random.Random | None = None
    ) -> Variation | None:
        for group in self.ranked:
            eligible = [v for v in group if v.condition is None or v.condition.holds(slots, context)]
            if eligible:
                return eligible[0] if rng is None else rng.choice(eligible)
        return None


def rank(variations: list[Variation]) -> tuple[tuple[Variation, ...], ...]:
    """Conditional and for our channel first, plain and for any channel last; other channels' never."""
    groups: tuple[list[Variation], ...] = ([], [], [], [])
    for variation in variations:
        if variation.channel == CHANNEL:
            groups[0 if variation.condition else 1].append(variation)
        elif variation.channel is None:
            groups[2 if variation.condition else 3].append(variation)
    return tuple(tuple(group) for group in groups if group)


def say(
    response: Response,
    slots: Mapping[str, Any],
    context: Mapping[str, Any],
    variables: Mapping[str, Any],
    rng: random.Random | None = None,
) -> dict[str, Any] | None:
    """The bot message of a response, or None when no variation is eligible."""
    variation = response.pick(slots, context, rng)
    if variation is None:
        return None
    message: dict[str, Any] = {"key": response.key}
    if variation.text is not None:
        message["text"] = variation.text(slots, context, variables)
    if variation.buttons:
        message["buttons"] = [
            {
                "title": button.title(slots, context, variables),
                "payload": button.payload(slots, context, variables),
            }
            for button in variation.buttons
        ]
    if variation.custom is not None:
        message["custom"] = variation.custom
    if variation.image is not None:
        message["image"] = variation.image
    if variation.attachment is not None:
        message["attachment"] = variation.attachment
    if variation.elements is not None:
        message["elements"] = variation.elements
    return message


def fields_of(text: str) -> set[str]:
    """The names in braces of a plain template."""
    return {match.group(1).strip() for match in _FIELD.finditer(text) if match.group(1)}


def plain(text: str) -> Render:
    """Compiles `{slot}` interpolation; `{{` and `}}` stand for braces."""
    literals: list[str] = []
    names: list[str] = []
    at = 0
    pending = ""
    for match in _FIELD.finditer(text):
        pending += text[at : match.start()]
        at = match.end()
        if match.group(1) is None:
            pending += match.group()[0]
            continue
        literals.append(pending)
        names.append(match.group(1).strip())
        pending = ""
    last = pending + text[at:]
    if not names:
        return lambda slots, context, variables: last
    pairs = tuple(zip(literals, names, strict=True))

    def render(slots: Mapping[str, Any], context: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        parts: list[str] = []
        for literal, name in pairs:
            parts.append(literal)
            parts.append(show(variables[name] if name in variables else slots.get(name)))
        parts.append(last)
        return "".join(parts)

    return render


def jinja(text: str) -> Render:
    """Compiles a Jinja template over `slots` and `context`; raises TemplateError when it is not one."""
    template = SANDBOX.from_string(text)

    def render(slots: Mapping[str, Any], context: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
        return template.render({**variables, "slots": slots, "context": context})

    return render


__all__ = [
    "CHANNEL",
    "SANDBOX",
    "Button",
    "Render",
    "Response",
    "TemplateError",
    "Variation",
    "fields_of",
    "jinja",
    "plain",
    "rank",
    "say",
]
