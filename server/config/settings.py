"""The settings of one server: every key of the `a2a_server:` block with its default, its unit and its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from server.auth.settings import AuthSettings
from server.config.types import (
    TEN_YEARS,
    HostName,
    Lifetime,
    Networks,
    Number,
    PublicUrl,
    SealingText,
    SigningText,
    StoreUrl,
    Text,
    Whole,
)

MIB = 1024 * 1024


class Settings(BaseModel):
    """One server's settings; frozen, so that every worker runs with the same ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    # --- the block as its documentation has it ---
    description: Text | None = Field(
        default=None,
        description="Public description for the agent card. Required in the file; without a file the agent's own is "
        "used. Ignored when agent_card_path names a static card.",
    )
    url: PublicUrl = Field(
        default="http://127.0.0.1:5005",
        description="Public base URL of this server as orchestrators see it, advertised in the agent card. Inferred "
        "from --port, --interface and --ssl-certificate; set it when a proxy or an ingress stands before the server.",
    )
    agent_card_path: Path | None = Field(
        default=None,
        description="Path of a static agent card (JSON), relative to the settings file. Its url is overwritten with "
        "the public URL. Default: the card is made from the agent's skills.",
    )
    include_conversation_repair: bool = Field(
        default=True,
        description="Whether repair flows (pattern_*) are advertised as skills and map to input_required; false maps "
        "the same state to completed.",
    )
    slot_allowlist: tuple[Text, ...] | None = Field(
        default=None,
        description="Slots that orchestrators may pre-seed. Default: every slot of the domain that is not built in.",
    )
    task_timeout_seconds: Whole = Field(
        default=600,
        ge=0,
        le=TEN_YEARS,
        description="Seconds one turn may run before it is canceled; a safety net, not extended by later messages, and "
        "waiting does not count. 0 means no bound.",
    )
    a2a_message_cache_ttl_seconds: Whole = Field(
        default_factory=lambda valid: valid["task_timeout_seconds"],
        ge=0,
        le=TEN_YEARS,
        description="Seconds for which a repeated (contextId, messageId) replays the stored outcome instead of running "
        "the agent again. Default: the same as task_timeout_seconds. 0 means no replay.",
    )
    max_contexts: Whole = Field(
        default=1000,
        ge=0,
        description="Distinct contexts that may be live at once in the whole fleet; input_required keeps its context "
        "live. Protects the store's memory. 0 means no cap.",
    )
    push_notifications_enabled: bool = Field(
        default=False,
        description="Whether callers may register callback URLs. Off by default: such URLs are chosen by the caller "
        "and could point into your network.",
    )
    push_notification_allowed_hosts: tuple[HostName, ...] | None = Field(
        default=None,
        description="Host names that callback URLs may have, each with its subdomains. Default: any public host.",
    )
    auth: AuthSettings | None = Field(
        default=None, description="Who may call: bearer tokens or API keys. Default: an open endpoint."
    )

    # --- what this server adds: the store ---
    redis_url: StoreUrl | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="The Redis (6.2 or later) or Valkey that keeps all state, shared by every worker of the fleet: "
        "redis://host:6379/0, rediss:// for TLS, unix:///path, redis+sentinel://host:26379,host:26379/service for the "
        "primary that Sentinels name, redis+cluster://host:6379,host:6379 for a Cluster by some of its nodes "
        "(rediss+sentinel and rediss+cluster with TLS). A password in it must be interpolated. Default: REDIS_URL, "
        "then the embedded engine (loopback only).",
    )
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = Field(
        default=None,
        description="Part of every key and channel, so that two fleets can share one Redis. Default: the agent's id.",
    )
    task_retention_seconds: Lifetime = Field(
        default=86400,
        description="Seconds a closed task and its push settings can still be read; never less than the message cache. "
        "A day covers an orchestrator that was down overnight.",
    )
    event_log_seconds: Lifetime = Field(
        default=900,
        description="Seconds a closed task's event log is kept for streams that resume; the task itself has it all.",
    )
    context_retention_seconds: Lifetime = Field(
        default=30 * 86400,
        description="Seconds after its last turn that a context's dialogue and open tasks are kept, so that a "
        "conversation can be resumed after inactivity. 30 days.",
    )
    context_idle_seconds: Whole = Field(
        default=0,
        ge=0,
        le=TEN_YEARS,
        description="Seconds after which an idle input_required context no longer counts towards max_contexts; its "
        "dialogue stays and its next message reserves again. 0: it counts for as long as the context is kept.",
    )

    # --- turns ---
    message_id_reuse: Literal["reject", "replay"] = Field(
        default="reject",
        description="What happens when a messageId comes again with other content: reject (HTTP 422, since one of the "
        "two would be lost unseen) or replay (the first outcome is returned).",
    )
    queue_limit: Whole = Field(
        default=16,
        ge=0,
        le=10_000,
        description="Messages that may wait in one context behind its running turn; the next one gets HTTP 429. A "
        "longer queue only hides that the agent is slower than its caller.",
    )
    max_open_tasks: Whole = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Open tasks one context may hold, so that no caller fills the store with one.",
    )
    cancel_wait_seconds: Number = Field(
        default=10,
        ge=0,
        le=600,
        description="Seconds a cancel waits for the agent's clean-up before it answers that work is still stopping.",
    )

    # --- push notifications ---
    push_max_attempts: Whole = Field(
        default=8,
        ge=1,
        le=100,
        description="POSTs of one event to one callback before it becomes a dead letter; 8 spread over about two "
        "minutes. 1 means no retries. A refusal (most 4xx) is never repeated.",
    )
    push_retry_seconds: Number = Field(
        default=1,
        gt=0,
        le=3600,
        description="Seconds before the first retry of a callback; each further wait doubles, with jitter, up to five "
        "minutes.",
    )
    push_concurrency: Whole = Field(
        default=64,
        ge=1,
        le=10_000,
        description="POSTs to callbacks that one worker has under way at once; one host gets a quarter of them, "
        "so that a slow one can't hold up the others.",
    )
    push_signing_keys: Annotated[tuple[SigningText, ...], Field(max_length=2)] = Field(
        default=(),
        repr=False,
        description="Keys that callbacks are signed with (Standard Webhooks), each as ${VAR} with whsec_ and base64 in "
        "it; two while receivers change over. Without one callbacks are not signed.",
    )
    push_encryption_keys: Annotated[tuple[SealingText, ...], Field(max_length=2)] = Field(
        default=(),
        repr=False,
        description="Keys that callbacks' URLs, tokens and credentials are encrypted with in the store, each as ${VAR} "
        "with 32 bytes in base64 or hex; the first seals, the second still opens. Without one they lie readable.",
    )
    push_allow_private_targets_for_tests_only: Literal[False, True, "force"] = Field(
        default=False,
        description="Whether callbacks may point to this machine and its networks. For tests: with it, any caller can "
        "make the server POST to what only the server can reach. Refused on a public interface, unless it says force.",
    )

    # --- workers ---
    heartbeat_seconds: Number = Field(
        default=1,
        ge=0.05,
        le=60,
        description="Seconds between two heartbeats of a worker; also how late a cancel is seen when its signal is "
        "lost.",
    )
    presumed_dead_seconds: Number = Field(
        default=5,
        ge=0.2,
        le=600,
        description="Seconds without a new heartbeat, the store answering throughout, after which a worker's turns are "
        "taken over. At least two heartbeats, or a slow one would look dead.",
    )
    drain_seconds: Number = Field(
        default=20,
        ge=0,
        le=3600,
        description="Seconds after SIGTERM for running turns to end while the listener stays open. Keep it below the "
        "grace period of what stops the server (Kubernetes: 30).",
    )

    # --- limits ---
    max_body_bytes: Whole = Field(
        default=10 * MIB,
        ge=1024,
        le=1024 * MIB,
        description="Bytes of one request body; a longer one gets HTTP 413. 10 MiB.",
    )
    max_json_depth: Whole = Field(
        default=64,
        ge=8,
        le=500,
        description="Nesting of one request's JSON; a deeper one is refused before it is decoded.",
    )
    max_header_bytes: Whole = Field(
        default=32 * 1024,
        ge=8 * 1024,
        le=MIB,
        description="Bytes of one request's first line and headers; more get HTTP 431. 32 KiB, room for any token.",
    )
    max_streams: Whole = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Streams one worker holds open at once; the next one gets HTTP 503 with Retry-After. Each holds a "
        "connection and a share of the worker's memory for as long as its client likes.",
    )
    caller_max_running_turns: Whole = Field(
        default=0,
        ge=0,
        description="Turns of one caller that may run at once in the whole fleet; the next one gets HTTP 429. What "
        "waits behind a running turn of the same context does not count, queue_limit bounds it. 0 means no limit.",
    )
    caller_max_contexts: Whole = Field(
        default=0,
        ge=0,
        description="Contexts of one caller that may be live at once, as max_contexts counts them; the next one gets "
        "HTTP 429. 0 means no limit.",
    )
    caller_max_stored_tasks: Whole = Field(
        default=0,
        ge=0,
        description="Tasks of one caller that may be kept at once, open ones and closed ones that have not lapsed; a "
        "message that would begin one more gets HTTP 429. 0 means no limit.",
    )
    caller_max_requests_per_second: Whole = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Operations one caller may ask for in any one second, in the whole fleet; the next one gets HTTP "
        "429. Costs a round trip to the store per request. 0 means no limit.",
    )
    max_parts: Whole = Field(default=1000, ge=1, le=100_000, description="Parts one message may have.")
    max_session_bytes: Whole = Field(
        default=MIB, ge=1024, le=256 * MIB, description="Bytes of the dialogue kept with one context. 1 MiB."
    )
    max_task_bytes: Whole = Field(
        default=8 * MIB,
        ge=1024,
        le=256 * MIB,
        description="Bytes of one stored task with its artifacts and history. 8 MiB.",
    )
    max_events_per_task: Whole = Field(
        default=100_000, ge=10, le=10_000_000, description="Events one task may have, so that a runaway agent ends."
    )

    # --- HTTP ---
    lenient_version: bool = Field(
        default=True,
        description="Whether a request of 1.0 is understood without its A2A-Version header, judged by its method name. "
        "The specification reads a missing header as 0.3.",
    )
    sse_keepalive_seconds: Number = Field(
        default=2.5,
        gt=0,
        le=3,
        description="Seconds between two keep-alive comments of a stream; at most 3, since proxies and clients close "
        "what looks idle.",
    )
    stream_buffer_events: Whole = Field(
        default=256,
        ge=1,
        le=100_000,
        description="Events held for a stream whose client reads slowly; it is resumed from the store beyond that.",
    )
    forwarded_allow_ips: Networks = Field(
        default=("127.0.0.1", "::1"),
        description="Addresses or networks of proxies whose X-Forwarded headers are believed; `*` believes anyone.",
    )

    # --- what it says of itself ---
    name: Text | None = Field(default=None, description="Name on the agent card. Default: the agent's.")
    version: Text | None = Field(default=None, description="Version on the agent card. Default: the agent's.")
    log_format: Literal["console", "json"] = Field(
        default="console", description="console for people, json for a log collector: one object per line."
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="The least severe log lines that are written. No message content from info upwards."
    )
    metrics_enabled: bool = Field(
        default=True,
        description="Whether numbers for Prometheus are shown at /metrics: to callers, as everything else, unless "
        "metrics_port gives them a port of their own.",
    )
    metrics_port: Whole | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="A port for /metrics alone, which asks nobody for credentials: let only your monitoring reach it. "
        "Default: /metrics on the server's own port.",
    )
    metrics_interface: Text = Field(
        default="127.0.0.1",
        description="The address that metrics_port listens on; 0.0.0.0 for all of them.",
    )
    traces_enabled: bool = Field(
        default=False,
        description="Whether spans are sent with OpenTelemetry, to where its own OTEL_* variables say; needs the extra "
        "nonstick[otel]. A request's traceparent is kept with its message either way, its id is in the turn's lines.",
    )

    # --- given by flags alone ---
    agent: str | None = Field(
        default=None, description="The agent that answers, as module:Class.", json_schema_extra={"flag": "--agent"}
    )
    assistant: Path | None = Field(
        default=None, description="The folder of the assistant that answers.", json_schema_extra={"flag": "--assistant"}
    )

    @property
    def store_url(self) -> str:
        """The store's address as text; asked for only when one has been chosen."""
        if self.redis_url is None:
            raise ValueError("no store has been chosen: redis_url is not set")
        return self.redis_url

    @field_validator("presumed_dead_seconds")
    @classmethod
    def _two_heartbeats(cls, value: float, info: ValidationInfo) -> float:
        heartbeat = info.data.get("heartbeat_seconds")
        if heartbeat is not None and value < 2 * heartbeat:
            raise PydanticCustomError(
                "out_of_range",
                "at least twice heartbeat_seconds ({heartbeat}) is needed, or a slow worker would be taken for dead",
                {"heartbeat": heartbeat},
            )
        return value
