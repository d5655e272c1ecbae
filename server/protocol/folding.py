"""How events change a task: what every reader of its log computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from server.protocol.model import Artifact, ArtifactUpdate, Event, JsonObject, MessageJoined, StatusUpdate, Task


def fold_all(task: Task, events: Iterable[Event]) -> Task:
    """The task after all of them. Chunks of one artifact that follow each other are joined first: one by one, each
    would copy all that came before it."""
    run: list[ArtifactUpdate] = []
    for event in events:
        if isinstance(event, ArtifactUpdate):
            if run and not (event.append and event.artifact.artifact_id == run[0].artifact.artifact_id):
                task, run = fold(task, _joined(run)), []
            run.append(event)
        else:
            if run:
                task, run = fold(task, _joined(run)), []
            task = fold(task, event)
    return fold(task, _joined(run)) if run else task


def fold(task: Task, event: Event) -> Task:
    """The task after the event, as every reader of the log computes it.

    A status message that is superseded moves into the history; an artifact chunk with `append` extends the artifact of
    its id and merges metadata, one without creates or replaces it in place.
    """
    match event:
        case StatusUpdate():
            history = task.history
            if task.status.message is not None:
                history = (*history, task.status.message)
            metadata = _merged(task.metadata, event.metadata)
            return Task(
                task.id, task.context_id, event.status, task.artifacts, history, metadata, task.trace, task.extra
            )
        case ArtifactUpdate():
            artifacts = _fold_artifact(task.artifacts, event)
            return Task(
                task.id, task.context_id, task.status, artifacts, task.history, task.metadata, task.trace, task.extra
            )
        case MessageJoined():
            history = task.history
            status = task.status
            if status.message is not None:
                history = (*history, status.message)
                status = replace(status, message=None)
            return replace(task, status=status, history=(*history, event.message))


def _fold_artifact(artifacts: tuple[Artifact, ...], event: ArtifactUpdate) -> tuple[Artifact, ...]:
    chunk = event.artifact
    for index, known in enumerate(artifacts):
        if known.artifact_id == chunk.artifact_id:
            if event.append:
                chunk = replace(
                    known, parts=known.parts + chunk.parts, metadata=_merged(known.metadata, chunk.metadata)
                )
            return (*artifacts[:index], chunk, *artifacts[index + 1 :])
    return (*artifacts, chunk)


def _joined(run: Sequence[ArtifactUpdate]) -> ArtifactUpdate:
    """One chunk for several of the same artifact, all but the first of which append to it."""
    first = run[0]
    if len(run) == 1:
        return first
    parts = tuple([part for event in run for part in event.artifact.parts])
    metadata = first.artifact.metadata
    for event in run[1:]:
        metadata = _merged(metadata, event.artifact.metadata)
    return replace(first, artifact=replace(first.artifact, parts=parts, metadata=metadata))


def _merged(old: JsonObject | None, new: JsonObject | None) -> JsonObject | None:
    if not new:
        return old
    return {**(old or {}), **new}
