"""Hypothesis strategies of the model: everything a client or an agent may really put into it."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from server.protocol.fields import MAX_ID_CHARS
from server.protocol.model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Message,
    MessageJoined,
    Part,
    PartKind,
    PushConfig,
    Role,
    SendMessage,
    State,
    Status,
    StatusUpdate,
    Task,
)

# Surrogates are no text; everything else is, line separators and astral characters included.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
ids = words | st.uuids().map(str) | st.just("x" * MAX_ID_CHARS)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, min_size=1, max_size=3)
metadata = st.none() | json_objects
uris = st.lists(words, max_size=3).map(tuple)
times = st.integers(0, 253_402_300_799_999)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    kind: PartKind = draw(st.sampled_from(["text", "raw", "url", "data"]))
    values: dict[PartKind, st.SearchStrategy[Any]] = {
        "text": texts,
        "raw": st.binary(max_size=12).map(lambda content: base64.b64encode(content).decode()),
        "url": words,
        "data": json_values,
    }
    return Part(kind, draw(values[kind]), draw(st.none() | words), draw(st.none() | words), draw(metadata))


some_parts = st.lists(parts(), min_size=1, max_size=3).map(tuple)
messages = st.builds(
    Message, ids, st.sampled_from(Role), some_parts, st.none() | ids, st.none() | ids, metadata, uris, uris
)
artifacts = st.builds(Artifact, ids, some_parts, st.none() | words, st.none() | words, metadata, uris)
statuses = st.builds(Status, st.sampled_from(State), times, st.none() | messages)
tasks = st.builds(
    Task,
    ids,
    ids,
    statuses,
    st.lists(artifacts, max_size=2).map(tuple),
    st.lists(messages, max_size=2).map(tuple),
    metadata,
)
status_updates = st.builds(StatusUpdate, ids, ids, statuses, metadata)
artifact_updates = st.builds(ArtifactUpdate, ids, ids, artifacts, st.booleans(), st.booleans(), metadata)
events: st.SearchStrategy[Event] = status_updates | artifact_updates | st.builds(MessageJoined, ids, ids, messages)
pushes = st.builds(
    PushConfig,
    st.none() | ids,
    words,
    st.none() | words,
    st.lists(words, min_size=1, max_size=2).map(tuple),
    st.none() | words,
    st.sampled_from(["0.3", "1.0"]),
)
sends = st.builds(
    SendMessage,
    messages,
    st.booleans(),
    st.none() | st.integers(1, 2**31 - 1),
    uris,
    st.none() | pushes,
    metadata,
)
