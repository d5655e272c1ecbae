"""What would run and what runs, in words: the banner of `run`, the page of `check`, and the errors of both."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from uuid import uuid4

from server.commands.probe import AgentFacts
from server.config import ConfigRefused, Plan, Settings
from server.config.plan import DEFAULT_PORT

# Where `run` listens unless told otherwise, and so where `chat` looks.
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"


def banner(plan: Plan, agent: AgentFacts, version: str) -> str:
    settings = plan.settings
    lines = [
        "",
        f"  nonstick {version} is up",
        "",
        *_rows(plan, agent),
        *(f"  note       {note}" for note in plan.notes()),
        "",
        "  Try it (sent twice, it is answered once: the message id is the same):",
        "",
        curl(
            plan.local_url,
            tls=plan.ssl_certificate is not None,
            credentials=_credentials(settings),
            text=agent.opening,
        ),
        "",
        f"  Or talk to it: nonstick chat{_chat_flags(plan)}",
        "",
        f"  Ctrl-C stops at once; SIGTERM lets running turns end first, for at most {settings.drain_seconds:g} s.",
        "",
    ]
    return "\n".join(lines)


def curl(url: str, *, tls: bool, credentials: str = "", text: str = "hello") -> str:
    """One line that can be pasted; a certificate of one's own making is accepted."""
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return (
        f"curl -s{'k' if tls else ''} {url}/ -H 'Content-Type: application/json' -H 'A2A-Version: 1.0' "
        f"{credentials}-d {shlex.quote(json.dumps(body, separators=(',', ':')))}"
    )


def _chat_flags(plan: Plan) -> str:
    flags = "" if plan.local_url == DEFAULT_URL else f" --url {plan.local_url}"
    match plan.settings.auth.type if plan.settings.auth else None:
        case "bearer":
            return f"{flags} --token $TOKEN"
        case "api_key":
            return f"{flags} --api-key $API_KEY"
        case _:
            return flags


def _credentials(settings: Settings) -> str:
    match settings.auth.type if settings.auth else None:
        case "bearer":
            return '-H "Authorization: Bearer $TOKEN" '
        case "api_key":
            return '-H "X-Api-Key: $API_KEY" '
        case _:
            return ""


def page(plan: Plan, agent: AgentFacts, of_store: tuple[str, ...] = ()) -> str:
    """Everything `run` would do; a star marks what is not the default. `of_store` is what to look at in the store."""
    defaults = {**Settings().model_dump(), "namespace": agent.namespace}
    lines = ["This would run:", "", *_rows(plan, agent), "", "with these settings (* is not the default):", ""]
    for name, value in plan.settings.model_dump(exclude={"redis_url", "agent", "assistant"}).items():
        shown = "…" if name == "auth" and value is not None else _shown(value)
        lines.append(f"  {'*' if value != defaults[name] else ' '} {name:<34} {shown}")
    notes = [f"  note: {note}" for note in plan.notes()]
    lines += ["", *notes] if notes else []
    for warning in (*(f"the store's {found}" for found in of_store), *agent.warnings):
        lines += ["", f"warning: {warning}"]
    if agent.summary:
        found = f", {len(agent.warnings)} to look at" if agent.warnings else ""
        lines += ["", f"{agent.name} is fine: {agent.summary}{found}."]
    return "\n".join(lines)


def refusal(refused: ConfigRefused) -> str:
    count = len(refused.problems)
    head = "There is a problem" if count == 1 else f"There are {count} problems"
    return "\n\n".join([f"{head} with this configuration:", *(str(problem) for problem in refused.problems)])


def complain(refused: ConfigRefused) -> int:
    print(refusal(refused), file=sys.stderr)
    return 2


def _rows(plan: Plan, agent: AgentFacts) -> Iterator[str]:
    source = plan.settings.agent or plan.settings.assistant
    yield f"  agent      {plan.settings.name or agent.name} ({source})"
    yield from (f"  {label:<10} {text}" for label, text in agent.rows)
    if not agent.rows:
        yield f"  skills     {', '.join(agent.skills) or 'none'}"
    yield f"  listening  {plan.local_url}"
    if plan.settings.url != plan.local_url:
        yield f"  public     {plan.settings.url}"
    if plan.settings.metrics_enabled and plan.settings.metrics_port:
        yield f"  metrics    http://{plan.settings.metrics_interface}:{plan.settings.metrics_port}/metrics"
    yield f"  store      {plan.store}"
    yield f"  workers    {plan.workers}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case tuple() | list():
            return ", ".join(str(item) for item in value) or "none"
        case _:
            return str(value)
