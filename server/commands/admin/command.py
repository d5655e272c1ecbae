"""From the command line to a command and back: opens the fleet, shows what was found, once or again and again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from server.commands.admin import change, contexts, letters, tasks, turns, workers
from server.commands.admin.finding import NotThere
from server.commands.admin.opening import Opened, opened, plan_of, store_url, unreachable
from server.commands.admin.tables import Shown
from server.commands.show import complain
from server.config import ConfigRefused
from stores.errors import StoreError, StoreUnavailable

Command = Callable[[Opened], Awaitable[Shown]]


def operate(name: str, arguments: dict[str, Any], environ: Mapping[str, str]) -> int:
    """0 when all is well or done; 1 when it could not be done, or something is wrong; 2 when nothing could be asked."""
    where = "the store"
    try:
        plan = plan_of(arguments, environ)
        where = plan.store
        with store_url(plan) as url:
            return asyncio.run(_operate(url, plan, choose(name, arguments), arguments))
    except ConfigRefused as refused:
        return complain(refused)
    except NotThere as error:
        print(error, file=sys.stderr)
        return 1
    except StoreError as error:
        return complain(unreachable(where, error))
    except KeyboardInterrupt:
        return 130


async def _operate(url: str, plan: Any, command: Command, arguments: dict[str, Any]) -> int:
    async with opened(url, plan, arguments["namespace"]) as fleet:
        every = arguments.get("watch")
        while True:
            try:
                shown = await command(fleet)
            except StoreUnavailable as error:
                # Who watches a failover wants to see its end.
                if every is None:
                    raise
                print(error, file=sys.stderr, flush=True)
                await asyncio.sleep(every)
                continue
            if every is not None and not arguments["json"] and sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            print(shown.render(as_json=arguments["json"]), flush=True)
            if every is None:
                return shown.code
            await asyncio.sleep(every)


def choose(name: str, given: dict[str, Any]) -> Command:
    """The command with its arguments bound."""
    from server.commands.admin import capacity, doctor

    match name, given.get("action"):
        case "ps", _:
            return turns.ps
        case "doctor", _:
            return lambda fleet: doctor.doctor(fleet, most=given["keys"], repair=given["repair"])
        case "capacity", _:
            return lambda fleet: capacity.capacity(fleet, most=given["keys"])
        case "tasks", "list":
            return lambda fleet: tasks.tasks_list(
                fleet, state=given["state"], limit=given["limit"], caller=given["caller"]
            )
        case "tasks", "show":
            return lambda fleet: tasks.tasks_show(
                fleet, given["task"], caller=given["caller"], content=given["content"]
            )
        case "tasks", "cancel":
            return lambda fleet: change.tasks_cancel(
                fleet, given["task"], caller=given["caller"], wait=given["wait"], force=given["force"]
            )
        case "tasks", "fail":
            return lambda fleet: change.tasks_fail(fleet, given["task"], caller=given["caller"], reason=given["reason"])
        case "contexts", "list":
            return lambda fleet: contexts.contexts_list(fleet, limit=given["limit"])
        case "contexts", "show":
            return lambda fleet: contexts.contexts_show(fleet, given["context"], caller=given["caller"])
        case "contexts", "release":
            return lambda fleet: change.contexts_release(
                fleet, given["context"], caller=given["caller"], wait=given["wait"], force=given["force"]
            )
        case "workers", "list":
            return workers.workers_list
        case "workers", "drain":
            return lambda fleet: change.workers_drain(fleet, given["worker"], wait=given["wait"])
        case "push", "list":
            return lambda fleet: letters.push_list(fleet, limit=given["limit"])
        case "push", action:
            return lambda fleet: change.push_change(
                fleet, str(action), letter=given["letter"], task=given["task"], every=given["all"]
            )
        case _:
            raise ValueError(name)
