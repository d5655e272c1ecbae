"""What answers: the interface a Python developer writes an agent against."""

from server.agents.base import Agent
from server.agents.outcome import Outcome, auth_required, completed, failed, input_required, rejected, reply
from server.agents.turn import Turn
from server.protocol.model import Artifact, Message, Part, Skill

__all__ = [
    "Agent",
    "Artifact",
    "Message",
    "Outcome",
    "Part",
    "Skill",
    "Turn",
    "auth_required",
    "completed",
    "failed",
    "input_required",
    "rejected",
    "reply",
]
