"""One task, message and card with every member set, and the events around them."""

from __future__ import annotations

from server.protocol.card import served_interfaces
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Card,
    Message,
    Part,
    PushConfig,
    Role,
    Skill,
    State,
    Status,
    StatusUpdate,
    Task,
)
from server.protocol.views import TaskPush

AT_MS = 1_767_323_045_678
AT = "2026-01-02T03:04:05.678Z"

PLAIN = Task("t1", "c1", Status(State.WORKING, AT_MS))
QUESTION = Message("m1", Role.USER, (Part("text", "hi"),))
ANSWER = Message(
    "m2",
    Role.AGENT,
    (
        Part("text", "a", "dropped in 0.3", "text/html"),
        Part("raw", "aGk=", "f.txt", "text/plain", {"n": 1}),
        Part("url", "https://x"),
        Part("data", {"z": None}),
        Part("data", [1], metadata={"k": 1}),
        Part("data", None),
    ),
    "c1",
    "t1",
    {"k": None},
    ("urn:e",),
    ("t0",),
)
FULL = Task(
    "t1",
    "c1",
    Status(State.COMPLETED, AT_MS, ANSWER),
    (Artifact("a1", (Part("text", "x"),), "n", "d", {"k": 1}, ("urn:e",)), Artifact("a2", (Part("text", "y"),))),
    (QUESTION,),
    {"k": 2},
)
STATUS = StatusUpdate("t1", "c1", Status(State.COMPLETED, AT_MS, QUESTION), {"k": 1})
CHUNK = ArtifactUpdate(
    "t1", "c1", Artifact("a1", (Part("text", "lo"),)), append=True, last_chunk=True, metadata={"k": 1}
)
FIRST_CHUNK = ArtifactUpdate("t1", "c1", Artifact("a1", (Part("text", "Hel"),)))
PUSH = TaskPush("t1", PushConfig("p1", "https://h", "k", ("Bearer", "Basic"), "x"))
BARE_PUSH = TaskPush("t1", PushConfig(None, "https://h"))

CARD = Card(
    name="Echo",
    description="Echoes",
    version="1.0.0",
    interfaces=served_interfaces("https://h/a2a"),
    skills=(Skill("echo", "Echo", "Echoes text", ("demo",), ("say hi",), ("text/plain",), ("text/plain",)),),
    push_notifications=True,
    extended_card=True,
    security={"securitySchemes": {"b": {"type": "http", "scheme": "Bearer"}}, "security": [{"b": []}]},
)
