"""What an assistant offers to orchestrators: one skill per flow that can be started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from server.dialogue.flows import Flow

MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class FlowSkill:
    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


def skills_of(
    flows: Mapping[str, Flow], examples: Mapping[str, tuple[str, ...]], *, repair: bool
) -> tuple[FlowSkill, ...]:
    """Flows in the order they were written; patterns only when the assistant handles repair itself."""
    skills: list[FlowSkill] = []
    for flow in flows.values():
        if flow.is_pattern and not repair:
            continue
        if flow.guard is not None and flow.guard.constant is False:
            continue  # only reachable from other flows
        sentences = [sentence for intent in flow.intents for sentence in examples.get(intent, ())]
        skills.append(
            FlowSkill(
                id=flow.id,
                name=flow.name,
                description=flow.description or flow.name,
                tags=("flow", "conversation-repair") if flow.is_pattern else ("flow",),
                examples=tuple(sentences[:MAX_EXAMPLES]),
            )
        )
    return tuple(skills)
