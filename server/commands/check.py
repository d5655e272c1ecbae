"""`nonstick check`: say what would run, or why nothing would."""

from __future__ import annotations

from collections.abc import Mapping

from server.commands.fit import look_at_store
from server.commands.probe import prepare
from server.commands.show import complain, page
from server.config import ConfigRefused, Flags


def check(flags: Flags, environ: Mapping[str, str]) -> int:
    try:
        plan, agent = prepare(flags, environ)
        print(page(plan, agent, tuple(str(it) for it in look_at_store(plan))))
    except ConfigRefused as refused:
        return complain(refused)
    return 0
