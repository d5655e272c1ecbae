"""Which operator's commands there are, and their flags; what they do is in the modules beside."""

from __future__ import annotations

import argparse
from pathlib import Path

from server.config.plan import DATA_DIR

KEYS_WALKED = 1_000_000
WAIT_SECONDS = 15.0

COMMANDS = {
    "ps": "What runs where, since when, how far, and what waits behind it.",
    "tasks": "List, show, cancel or fail tasks.",
    "contexts": "List and show conversations; give back their places under max_contexts.",
    "workers": "List workers; ask one to finish its turns and end.",
    "push": "Callbacks: what could not be delivered; send it again, or forget it.",
    "doctor": "Examine the store and the fleet: what is wrong, and what to do.",
    "capacity": "Measure tasks and contexts in the live store: bytes of each, and how many fit in a gigabyte.",
}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the operator's commands to the root's."""
    made = {name: commands.add_parser(name, help=what, description=what) for name, what in COMMANDS.items()}
    _ps(made["ps"])
    _tasks(made["tasks"])
    _contexts(made["contexts"])
    _workers(made["workers"])
    _push(made["push"])
    _doctor(made["doctor"])
    _capacity(made["capacity"])


def _ps(command: argparse.ArgumentParser) -> None:
    _store(command, watch=True)


def _tasks(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    lists = actions.add_parser("list", help="the latest tasks", description="The latest tasks, newest first.")
    lists.add_argument("--state", help="only tasks in this state, for example working or input_required")
    lists.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (%(default)s)")
    _caller(lists)
    _store(lists, watch=True)
    show = actions.add_parser("show", help="one task", description="One task: its facts, its turn and its callbacks.")
    show.add_argument("task", metavar="TASK", help="the task's id")
    show.add_argument("--content", action="store_true", help="the stored document too; it holds what people wrote")
    _caller(show)
    _store(show)
    cancel = actions.add_parser(
        "cancel",
        help="end a task as its caller would",
        description="Ends a task as its caller would: its worker stops the agent, and the answer waits for that.",
    )
    cancel.add_argument("task", metavar="TASK", help="the task's id")
    cancel.add_argument("--force", action="store_true", help="close it all the same when no worker stopped it in time")
    _wait(cancel)
    _caller(cancel)
    _store(cancel)
    fail = actions.add_parser(
        "fail",
        help="close a task as failed, at once",
        description="Closes a task as failed, at once. A worker that still runs it can write nothing any more.",
    )
    fail.add_argument("task", metavar="TASK", help="the task's id")
    fail.add_argument("--reason", default="ended by an operator", help="what its caller is told (%(default)s)")
    _caller(fail)
    _store(fail)


def _contexts(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    lists = actions.add_parser("list", help="live contexts", description="Contexts that count under max_contexts.")
    lists.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (%(default)s)")
    _store(lists, watch=True)
    show = actions.add_parser("show", help="one context", description="One context: its turn, its queue, its tasks.")
    show.add_argument("context", metavar="CONTEXT", help="the contextId")
    _caller(show)
    _store(show)
    release = actions.add_parser(
        "release",
        help="end what is open in a context",
        description="Cancels every open task of a context, so that it no longer counts under max_contexts. Its "
        "dialogue stays: the next message goes on with it.",
    )
    release.add_argument("context", metavar="CONTEXT", help="the contextId")
    release.add_argument("--force", action="store_true", help="close running tasks all the same when nobody stops them")
    _wait(release)
    _caller(release)
    _store(release)


def _workers(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    lists = actions.add_parser("list", help="all known workers", description="All workers that were seen lately.")
    _store(lists, watch=True)
    drain = actions.add_parser(
        "drain",
        help="ask a worker to end",
        description="Asks a worker to finish its turns, hand on its queues and end, as SIGTERM does. Its master starts "
        "a fresh one in its place.",
    )
    drain.add_argument("worker", metavar="WORKER", help="its id, as `workers list` shows it, or the beginning of it")
    _wait(drain, default=60.0)
    drain.add_argument(
        "--no-wait",
        dest="wait",
        action="store_const",
        const=0.0,
        default=argparse.SUPPRESS,
        help="do not wait for its end",
    )
    _store(drain)


def _push(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    lists = actions.add_parser("list", help="dead letters and what waits", description="Callbacks in trouble.")
    lists.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (%(default)s)")
    _store(lists, watch=True)
    for name, what in (
        ("retry", "Sends what was given up on once more, with everything after it, in order."),
        ("drop", "Forgets what was given up on, for good."),
    ):
        action = actions.add_parser(name, help=what[0].lower() + what[1:-1], description=what)
        which = action.add_mutually_exclusive_group(required=True)
        which.add_argument("letter", metavar="LETTER", nargs="?", help="a dead letter, as `push list` shows it")
        which.add_argument("--task", metavar="TASK", help="all dead letters of this task")
        which.add_argument("--all", action="store_true", help="all dead letters of the fleet")
        _store(action)


def _doctor(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--repair", action="store_true", help="put lost hints about turns and queues back, so that workers find them"
    )
    _walk(command, 200_000)
    _store(command, watch=True)


def _capacity(command: argparse.ArgumentParser) -> None:
    _walk(command, 200_000)
    _store(command)


def _walk(command: argparse.ArgumentParser, most: int) -> None:
    command.add_argument(
        "--keys", metavar="N", type=int, default=most, help="look at no more keys than so many (%(default)s)"
    )


def _wait(command: argparse.ArgumentParser, default: float = WAIT_SECONDS) -> None:
    command.add_argument(
        "--wait", metavar="SECONDS", type=float, default=default, help="wait so long for it (%(default)g)"
    )


def _caller(command: argparse.ArgumentParser) -> None:
    command.add_argument("--caller", metavar="KEY", help="the caller's key, where two callers have the same id")


def _store(command: argparse.ArgumentParser, *, watch: bool = False) -> None:
    group = command.add_argument_group("which fleet (found as `run` finds its store)")
    group.add_argument("--redis", metavar="URL", help="the store; wins over redis_url in the file, then REDIS_URL")
    group.add_argument("--endpoints", metavar="FILE", type=Path, help="the fleet's settings file")
    group.add_argument("--agent", metavar="MODULE:CLASS", help="what the fleet runs, which names its namespace")
    group.add_argument("--assistant", metavar="DIR", type=Path, help="the same for a flow assistant")
    group.add_argument("--namespace", metavar="NAME", help="the fleet, where several share the store")
    group.add_argument("--embedded", action="store_true", help="the embedded Valkey, whatever else is named")
    group.add_argument(
        "--data-dir", metavar="DIR", type=Path, default=DATA_DIR, help="the embedded Valkey's folder (%(default)s)"
    )
    shown = command.add_argument_group("how it is shown")
    shown.add_argument("--json", action="store_true", help="JSON for scripts instead of a table")
    if watch:
        shown.add_argument(
            "--watch", metavar="SECONDS", type=float, nargs="?", const=2.0, help="again and again (every 2 s)"
        )
