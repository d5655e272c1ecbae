"""What would run: the settings, where it listens, which store it uses; made of flags, file and environment."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from server.config.document import Override
from server.config.endpoints import load_settings
from server.config.problems import PREFIX, ConfigProblem, ConfigRefused, problem
from server.config.settings import Settings

DATA_DIR = Path(".nonstick")
DEFAULT_PORT = 5005
DEFAULT_WORKERS = 2
WILDCARDS = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line said; `None` where it said nothing."""

    agent: str | None = None
    assistant: Path | None = None
    endpoints: Path | None = None
    redis: str | None = None
    embedded: bool = False
    data_dir: Path = DATA_DIR
    workers: int = DEFAULT_WORKERS
    port: int = DEFAULT_PORT
    interface: str = "127.0.0.1"
    ssl_certificate: Path | None = None
    ssl_keyfile: Path | None = None
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked configuration; `data_dir` is set when the embedded engine is the store."""

    settings: Settings
    interface: str
    port: int
    workers: int
    ssl_certificate: Path | None = None
    ssl_keyfile: Path | None = None
    data_dir: Path | None = None

    @property
    def embedded(self) -> bool:
        return self.data_dir is not None

    @property
    def local_url(self) -> str:
        """The server's address as this machine sees it, whatever the public one is."""
        return inferred_url(self.interface, self.port, tls=self.ssl_certificate is not None)

    @property
    def store(self) -> str:
        """The store in words, without its password."""
        return f"embedded Valkey in {self.data_dir}" if self.embedded else redacted(self.settings.store_url)

    def listening_on(self, port: int) -> Plan:
        """The plan once the port is known, which `--port 0` leaves to the system."""
        moved = replace(self, port=port)
        if self.settings.url != self.local_url:
            return moved
        return replace(moved, settings=self.settings.model_copy(update={"url": moved.local_url}))

    def with_store(self, url: str) -> Plan:
        return replace(self, settings=self.settings.model_copy(update={"redis_url": url}))

    def in_namespace(self, name: str) -> Plan:
        """The plan once the namespace is known, which is the agent's unless the settings name one."""
        return replace(self, settings=self.settings.model_copy(update={"namespace": name}))

    def notes(self) -> Iterator[str]:
        """What is allowed but may not be what was meant."""
        if self.settings.auth is None and not is_loopback(self.interface):
            yield (
                f"{PREFIX}open_endpoint: other machines can reach this server and auth is not set, so whoever reaches "
                "it is let in. Set auth, or let nothing but a gateway that authenticates come near it."
            )
        if self.settings.a2a_message_cache_ttl_seconds == 0:
            yield "a2a_message_cache_ttl_seconds is 0: a message that is sent again runs the agent again."
        if self.interface in WILDCARDS and urlsplit(self.settings.url).hostname == "localhost":
            yield "url is not set: the agent card says localhost, which other machines can't reach."
        if self.embedded and not is_loopback(self.interface):
            yield "the embedded engine serves this machine alone: a second machine would be an island of its own."
        if self.settings.push_notifications_enabled and not self.settings.push_encryption_keys:
            yield "push_encryption_keys is not set: callbacks' URLs, tokens and credentials are stored readable."
        if self.settings.push_notifications_enabled and not self.settings.push_signing_keys:
            yield "push_signing_keys is not set: receivers of callbacks can't tell ours from anybody's."
        if self.settings.push_allow_private_targets_for_tests_only:
            yield "push_allow_private_targets_for_tests_only is set: callers can make this server call its own network."


def make_plan(flags: Flags, environ: Mapping[str, str], *, serves: bool = True) -> Plan:
    """Check everything that can be checked before anything starts; raises `ConfigRefused` with all problems.

    Without `serves` nothing has to be named that answers: only the settings and the store are asked for.
    """
    problems = list(_flag_problems(flags, serves=serves))
    from_environment = environ.get("REDIS_URL") if not flags.embedded else None
    fallbacks = {"redis_url": Override(from_environment, "REDIS_URL")} if from_environment else {}
    try:
        settings, found = load_settings(endpoints_file(flags), environ, _overrides(flags), fallbacks)
    except ConfigRefused as refused:
        raise ConfigRefused([*problems, *refused.problems]) from None
    problems += found
    if flags.embedded:
        settings = settings.model_copy(update={"redis_url": None})
    elif settings.redis_url is None and not is_loopback(flags.interface):
        problems.append(_no_store(flags))
    if settings.push_allow_private_targets_for_tests_only is True and not is_loopback(flags.interface):
        problems.append(_private_targets(flags))
    if problems:
        raise ConfigRefused(problems)
    if "url" not in settings.model_fields_set:
        tls = flags.ssl_certificate is not None
        settings = settings.model_copy(update={"url": inferred_url(flags.interface, flags.port, tls=tls)})
    return Plan(
        settings=settings,
        interface=flags.interface,
        port=flags.port,
        workers=flags.workers,
        ssl_certificate=flags.ssl_certificate,
        ssl_keyfile=flags.ssl_keyfile,
        data_dir=flags.data_dir if settings.redis_url is None else None,
    )


def endpoints_file(flags: Flags) -> Path | None:
    """The settings file: the one that was named, else the one in the assistant's folder."""
    if flags.endpoints is not None or flags.assistant is None:
        return flags.endpoints
    beside = (flags.assistant / name for name in ("endpoints.yml", "endpoints.yaml"))
    return next((file for file in beside if file.is_file()), None)


def inferred_url(interface: str, port: int, *, tls: bool) -> str:
    # A wildcard is where to listen, not where to call.
    host = "localhost" if interface in WILDCARDS else f"[{interface}]" if ":" in interface else interface
    return f"{'https' if tls else 'http'}://{host}:{port}"


def is_loopback(interface: str) -> bool:
    if interface == "localhost":
        return True
    try:
        return ipaddress.ip_address(interface).is_loopback
    except ValueError:
        return False


def redacted(url: str) -> str:
    """The address without its password, in the user part or in the query."""
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    user = parts.netloc.partition(":")[0] if at else ""
    # Not urlunsplit, which makes unix:/path of unix:///path.
    return f"{parts.scheme}://{f'{user}:***@' if at else ''}{host}{parts.path}{'?…' if parts.query else ''}"


def _overrides(flags: Flags) -> dict[str, Override]:
    given: dict[str, tuple[object, str]] = {
        "agent": (flags.agent, "--agent"),
        "assistant": (flags.assistant, "--assistant"),
        "redis_url": (flags.redis, "--redis"),
        "log_level": (flags.log_level, "--log-level"),
    }
    return {name: Override(value, where) for name, (value, where) in given.items() if value is not None}


def _no_store(flags: Flags) -> ConfigProblem:
    return problem(
        "no_store",
        "--interface",
        f"Other machines can reach {flags.interface}, and no shared store is named: each would keep state of its own.",
        "Set REDIS_URL, redis_url or --redis; or say --embedded if this machine is the only one.",
    )


def _private_targets(flags: Flags) -> ConfigProblem:
    return problem(
        "private_targets",
        "--interface",
        f"push_allow_private_targets_for_tests_only is true and other machines can reach {flags.interface}: they could "
        "make this server call whatever it can reach in your network.",
        "Remove the setting; it is for tests on 127.0.0.1. `force` in place of true is for a test network of its own.",
    )


def _flag_problems(flags: Flags, *, serves: bool) -> Iterator[ConfigProblem]:
    if serves and flags.agent is None and flags.assistant is None:
        yield problem(
            "no_agent",
            "--agent",
            "Nothing answers yet.",
            "Name your agent: --agent mypackage.agents:MyAgent, or --assistant DIR for a flow assistant.",
        )
    if flags.agent is not None and flags.assistant is not None:
        yield problem("agent_conflict", "--assistant", "--agent and --assistant are both given.", "Keep one of them.")
    if flags.agent is not None and not all(part.strip() for part in [*flags.agent.partition(":")]):
        yield problem(
            "agent_invalid",
            "--agent",
            f"{flags.agent!r} does not name a class in a module.",
            "Write module:Class, for example examples.echo:Echo.",
        )
    if flags.assistant is not None and not flags.assistant.is_dir():
        yield problem(
            "assistant_not_found",
            "--assistant",
            f"{flags.assistant} is not a folder.",
            "Give the folder that holds the assistant's files.",
        )
    if flags.embedded and flags.redis is not None:
        yield problem("store_conflict", "--embedded", "--embedded and --redis are both given.", "Keep one of them.")
    if not 0 <= flags.port <= 65535:
        yield problem("port_invalid", "--port", f"{flags.port} is no port.", "Give 1 to 65535; 0 takes a free one.")
    if not 1 <= flags.workers <= 512:
        yield problem("workers_invalid", "--workers", f"{flags.workers} workers can't run.", "Give 1 to 512.")
    yield from _ssl_problems(flags.ssl_certificate, flags.ssl_keyfile)


def _ssl_problems(certificate: Path | None, keyfile: Path | None) -> Iterator[ConfigProblem]:
    if certificate is None:
        if keyfile is not None:
            yield problem("ssl_invalid", "--ssl-keyfile", "A key without its certificate.", "Add --ssl-certificate.")
        return
    try:
        # An encrypted key would ask for its password on the terminal of a service.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, keyfile, password="")
    except (OSError, ValueError) as error:
        yield problem(
            "ssl_invalid",
            "--ssl-certificate",
            f"The certificate and its key can't be used: {error}.",
            "Give PEM files that belong together and that this user may read; the key must not be encrypted.",
        )
