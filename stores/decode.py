"""Script replies into records."""

from __future__ import annotations

from typing import Any

from stores.errors import StoreCorrupt
from stores.keys import ContextRef
from stores.records import Entry, TaskView, Ticket


def word_of(reply: Any) -> str:
    if not isinstance(reply, list) or not reply or not isinstance(reply[0], str):
        raise StoreCorrupt(f"a script answered {reply!r}")
    return reply[0]


def decode_entries(raw: Any) -> tuple[Entry, ...]:
    entries = []
    for entry_id, fields in raw:
        facts = dict(zip(fields[::2], fields[1::2], strict=True))
        entries.append(Entry(entry_id, facts["k"], int(facts["a"]), facts["d"]))
    return tuple(entries)


def decode_told(word: str) -> tuple[Entry, ...]:
    """The entries that came with a task's wake-up; none where it is only a word."""
    what, *told = word.split("\n")
    if what != "events":
        return ()
    fence, first, at, *fields = told
    rows = zip(fields[::3], fields[2::3], strict=True)
    return tuple(Entry(f"{fence}-{seq}", kind, int(at), doc) for seq, (kind, doc) in enumerate(rows, int(first)))


def decode_view(task_id: str, raw: Any) -> TaskView:
    state, phase, at, context_id, doc, cursor, last, trimmed, entries, *more = raw
    return TaskView(
        task_id=task_id,
        context_id=context_id,
        state=state,
        phase=phase,
        at_ms=int(at),
        doc=doc,
        cursor=cursor,
        last=last,
        trimmed=trimmed,
        entries=decode_entries(entries),
        cid=more[0] if more else "",
    )


def decode_ticket(context: ContextRef, worker: str, raw: Any) -> Ticket:
    task_id, mid, fence, asked, attempt, session, started, view, *more = raw
    return Ticket(
        context=context,
        worker=worker,
        task_id=task_id,
        mid=mid,
        fence=fence,
        input=asked,
        attempt=int(attempt),
        session=session,
        started_ms=int(started),
        view=decode_view(task_id, view),
        delivery=more[0] if more else "",
        asked_ms=int(more[1]) if len(more) > 1 else 0,
    )
