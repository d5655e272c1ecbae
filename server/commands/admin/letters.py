"""`nonstick push list`: what callbacks could not be told."""

from __future__ import annotations

import json
from typing import Any

from server.commands.admin.opening import Opened
from server.commands.admin.tables import Shown, short, since, table
from stores.records import DeadLetter


def letter_name(letter: DeadLetter) -> str:
    return f"{letter.task_id}:{letter.name}:{letter.event}"


async def push_list(fleet: Opened, *, limit: int) -> Shown:
    now = await fleet.admin.now_ms()
    letters = await fleet.store.push.list_dead_letters(most=limit)
    total = await fleet.admin.count_letters()
    waiting = await fleet.admin.undelivered()
    serving = sum(worker.deliveries for worker in await fleet.admin.workers())
    data = {
        "dead_letters": [
            {
                "letter": letter_name(it),
                "task": it.task_id,
                "caller": it.caller,
                "event": it.event,
                "at_ms": it.at_ms,
                "about": about(it),
            }
            for it in letters
        ],
        "total": total,
        "nobody_serves": [ref.task_id for ref in waiting],
        "served": serving,
    }
    rows = [(letter_name(it), since(it.at_ms, now), short(json.dumps(about(it)), 80)) for it in letters]
    text = table(("LETTER", "SINCE", "ABOUT"), rows, empty="There are no dead letters.")
    summary = f"\n{total} dead letters, {serving} tasks being served, {len(waiting)} waiting for a worker"
    return Shown(data, text + "\n" + summary)


def about(letter: DeadLetter) -> Any:
    """What the server wrote on the letter: why it was given up, never what it holds."""
    try:
        doc = json.loads(letter.doc)
    except ValueError:
        return letter.doc
    return (
        {name: value for name, value in doc.items() if name not in ("body", "event", "secret")}
        if isinstance(doc, dict)
        else doc
    )
