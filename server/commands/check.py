"""`nonstick check`: say what would run, or why nothing would."""

from __future__ import annotations

from collections.abc import Mapping

from server.commands.probe import prepare
from server.commands.show import complain, page
from server.config import ConfigRefused, Flags


def check(flags: Flags, environ: Mapping[str, str]) -> int:
    try:
        print(page(*prepare(flags, environ)))
    except ConfigRefused as refused:
        return complain(refused)
    return 0
