"""The command line: which flags there are and what they mean; the commands themselves are in `server.commands`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from server.commands.admin import flags as admin
from server.config.plan import DATA_DIR, DEFAULT_PORT, DEFAULT_WORKERS, Flags

LEVELS = ("debug", "info", "warning", "error", "critical")
# Where `run` listens unless told otherwise.
CHAT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
RELOAD_SECONDS = 60.0

COMMANDS = {
    "run": "Serve an agent or an assistant until told to stop.",
    "check": "Print what `run` with the same flags would do, or every problem it would have; start nothing.",
    "test": "Run the dialogues in an assistant's folder (dialogues.yml) and report what did not go as written.",
    "chat": "Talk to a running server in the terminal, through A2A.",
    "reload": "Make every worker of a running fleet load its assistant's files again, and wait until they did.",
    "chaos": "Start a fleet of its own on this machine, break it while it works, and say whether every promise held.",
}


def main(argv: Sequence[str] | None = None) -> int:
    release = version("nonstick")
    arguments = vars(parser(release).parse_args(argv))
    match arguments.pop("command"):
        case operating if operating in admin.COMMANDS:
            from server.commands.admin.command import operate

            return operate(operating, arguments, os.environ)
        case "check":
            from server.commands.check import check

            return check(Flags(**arguments), os.environ)
        case "test":
            from server.commands.test import test

            return test(arguments["assistant"], arguments["dialogue"])
        case "chat":
            return _chat(arguments)
        case "chaos":
            from server.chaos.run import Options, chaos

            return chaos(Options(**arguments))
        case "reload":
            from server.commands.reload import reload

            return reload(arguments, os.environ)
        case _:
            from server.commands.run import run

            return run(Flags(**arguments), os.environ, release)


def _chat(arguments: dict[str, Any]) -> int:
    from server.commands.chat import chat

    return chat(
        arguments["url"],
        context=arguments["context"],
        token=arguments["token"] or os.environ.get("NONSTICK_TOKEN"),
        api_key=arguments["api_key"] or os.environ.get("NONSTICK_API_KEY"),
        insecure=arguments["insecure"],
    )


def parser(release: str) -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="nonstick",
        description="An A2A server made of stateless workers over one Redis.",
        epilog="`nonstick COMMAND --help` explains the flags of a command.",
    )
    root.add_argument("--version", action="version", version=f"nonstick {release}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {name: commands.add_parser(name, help=what, description=what) for name, what in COMMANDS.items()}
    for name in ("run", "check"):
        _add_what(made[name])
        _add_setup(made[name])
        _add_listening(made[name])
        _add_store(made[name])
    _add_test(made["test"])
    _add_chat(made["chat"])
    _add_reload(made["reload"])
    _add_chaos(made["chaos"])
    admin.add_commands(commands)
    return root


def _add_chaos(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seconds", metavar="S", type=float, default=60.0, help="how long (%(default)s)")
    command.add_argument("--seed", metavar="N", type=int, help="the same load and faults as a run that told its seed")
    command.add_argument("--workers", metavar="N", type=int, default=3, help="processes, 2 or more (%(default)s)")
    command.add_argument(
        "--keep", action="store_true", help="leave the logs of a run that found something, and say where"
    )


def _add_what(command: argparse.ArgumentParser) -> None:
    what = command.add_argument_group("what answers (one of the two)")
    what.add_argument(
        "--agent",
        metavar="MODULE:CLASS",
        help="a Python agent: a subclass of server.agents.Agent, for example examples.echo:Echo; the current folder "
        "is on the import path",
    )
    what.add_argument(
        "--assistant",
        metavar="DIR",
        type=Path,
        help="a flow assistant: the folder with its flows, domain, config.yml and endpoints.yml, for example "
        "examples/bank",
    )


def _add_endpoints(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--endpoints",
        metavar="FILE",
        type=Path,
        help="settings: the a2a_server block of this YAML file; without it that of endpoints.yml in the assistant's "
        "folder, or else every setting has its default. An assistant's action_endpoint and model_groups are always "
        "read from its folder",
    )


def _add_setup(command: argparse.ArgumentParser) -> None:
    how = command.add_argument_group("how it is set up")
    _add_endpoints(how)
    how.add_argument("--workers", metavar="N", type=int, default=DEFAULT_WORKERS, help="processes (%(default)s)")
    how.add_argument("--log-level", choices=LEVELS, help="wins over log_level in the file (info)")


def _add_listening(command: argparse.ArgumentParser) -> None:
    where = command.add_argument_group("where it listens")
    where.add_argument("--port", metavar="N", type=int, default=DEFAULT_PORT, help="0 takes a free one (%(default)s)")
    where.add_argument(
        "--interface",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="the address to listen on, 0.0.0.0 for all; other machines can reach any but the default (%(default)s)",
    )
    where.add_argument("--ssl-certificate", metavar="FILE", type=Path, help="serve HTTPS with this certificate (PEM)")
    where.add_argument("--ssl-keyfile", metavar="FILE", type=Path, help="the certificate's key, if in another file")


def _add_store(command: argparse.ArgumentParser) -> None:
    store = command.add_argument_group("where its state is kept")
    store.add_argument(
        "--redis",
        metavar="URL",
        help="a Redis (6.2 or later) or Valkey that all workers of all machines share; wins over redis_url in the "
        "file, which wins over the variable REDIS_URL. A password here can be seen by other users of the machine: "
        "prefer the variable",
    )
    store.add_argument(
        "--embedded",
        action="store_true",
        help="use the embedded Valkey, whatever the file and REDIS_URL say; the default when no store is named and "
        "only this machine can reach the server",
    )
    store.add_argument(
        "--data-dir", metavar="DIR", type=Path, default=DATA_DIR, help="the embedded Valkey's folder (%(default)s)"
    )


def _add_test(command: argparse.ArgumentParser) -> None:
    command.add_argument("--assistant", metavar="DIR", type=Path, required=True, help="the assistant's folder")
    command.add_argument("--dialogue", metavar="NAME", help="run only the dialogues whose name contains this")


def _add_chat(command: argparse.ArgumentParser) -> None:
    command.add_argument("--url", default=CHAT_URL, help="the server's address (%(default)s)")
    command.add_argument("--context", metavar="ID", help="take up a conversation; without it a new one is begun")
    command.add_argument(
        "--token",
        help="a bearer token, where the server wants one. Other users of the machine can see it: prefer the variable "
        "NONSTICK_TOKEN",
    )
    command.add_argument(
        "--api-key", metavar="KEY", help="an API key, where the server wants one; likewise NONSTICK_API_KEY"
    )
    command.add_argument(
        "--insecure", action="store_true", help="accept any certificate: for one of your own making, on your machine"
    )


def _add_reload(command: argparse.ArgumentParser) -> None:
    which = command.add_argument_group(
        "which fleet", "The flags `run` was started with find it; where only one fleet is on the store, none is needed."
    )
    which.add_argument("--namespace", metavar="NAME", help="its namespace, as `nonstick check` and /status show it")
    _add_what(command)
    _add_endpoints(which)
    _add_store(command)
    command.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=RELOAD_SECONDS,
        help="how long to wait for the workers (%(default)g)",
    )
