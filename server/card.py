"""The card a worker shows: made from the settings and from what its agent says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from server.agents.base import Agent
from server.auth.schemes import card_security
from server.config.settings import Settings
from server.protocol.card import served_interfaces
from server.protocol.model import Card
from server.protocol.static_card import load_static


class ShownCard:
    """The card as it is now: built anew whenever the agent says something else of itself."""

    def __init__(self, settings: Settings, agent: Agent) -> None:
        self._settings = settings
        self._agent = agent
        self._of: tuple[object, ...] = ()
        self._card: Card | None = None

    def __call__(self) -> Card:
        agent = self._agent
        of = (agent.name, agent.version, agent.skills, agent.ready)
        if self._card is None or self._of != of:
            self._of, self._card = of, build_card(self._settings, agent)
        return self._card


def build_card(settings: Settings, agent: Agent) -> Card:
    """The card: the static file where there is one, else what the agent says of itself."""
    security = card_security(settings.auth)
    # Meant for callers who proved who they are, so it is there only where they can.
    extended = settings.auth is not None
    if settings.agent_card_path is not None:
        static = load_static(json.loads(Path(settings.agent_card_path).read_text("utf-8")), str(settings.url))
        # A card written by hand may know better how to get a token; silent about it, it would send callers into a 401.
        # Whatever it says, what is off is not offered.
        push = static.push_notifications and settings.push_notifications_enabled
        return replace(static, extended_card=extended, push_notifications=push, security=static.security or security)
    kind = type(agent)
    own = (kind.__doc__ or "").strip() if kind.__doc__ is not Agent.__doc__ else ""
    return Card(
        name=settings.name or agent.name or kind.__name__,
        description=settings.description or agent.description or own or kind.__name__,
        version=settings.version or agent.version,
        interfaces=served_interfaces(str(settings.url)),
        skills=tuple(agent.skills),
        push_notifications=settings.push_notifications_enabled,
        extended_card=extended,
        input_modes=tuple(agent.input_modes),
        output_modes=tuple(agent.output_modes),
        security=security,
        # An agent without skills of its own shows one; one that is not loaded yet shows none, so that nobody routes to
        # a skill that will not be there.
        extra={} if agent.ready else {"skills": []},
    )
