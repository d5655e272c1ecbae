"""The defaults of the `a2a_server:` block, and how one value decides another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from server.config import Settings
from server.config.endpoints import load_settings
from tests.config.files import write

DOCUMENTED = {
    "url": "http://127.0.0.1:5005",
    "agent_card_path": None,
    "include_conversation_repair": True,
    "task_timeout_seconds": 600,
    "a2a_message_cache_ttl_seconds": 600,
    "max_contexts": 1000,
    "push_notifications_enabled": False,
    "push_notification_allowed_hosts": None,
    "auth": None,
}
ADDED = {
    "slot_allowlist": None,
    "redis_url": None,
    "namespace": None,
    "message_id_reuse": "reject",
    "queue_limit": 16,
    "lenient_version": True,
    "cancel_wait_seconds": 10,
    "heartbeat_seconds": 1,
    "presumed_dead_seconds": 5,
    "drain_seconds": 20,
    "task_retention_seconds": 86_400,
    "event_log_seconds": 900,
    "context_retention_seconds": 2_592_000,
    "context_idle_seconds": 0,
    "max_body_bytes": 10_485_760,
    "max_json_depth": 64,
    "max_parts": 1000,
    "max_header_bytes": 32_768,
    "max_streams": 1000,
    "caller_max_running_turns": 0,
    "caller_max_contexts": 0,
    "caller_max_stored_tasks": 0,
    "caller_max_requests_per_second": 0,
    "max_session_bytes": 1_048_576,
    "max_task_bytes": 8_388_608,
    "max_events_per_task": 100_000,
    "max_open_tasks": 100,
    "push_max_attempts": 8,
    "push_retry_seconds": 1,
    "push_concurrency": 64,
    "push_signing_keys": (),
    "push_encryption_keys": (),
    "push_allow_private_targets_for_tests_only": False,
    "sse_keepalive_seconds": 2.5,
    "stream_buffer_events": 256,
    "forwarded_allow_ips": ("127.0.0.1", "::1"),
    "log_format": "console",
    "log_level": "info",
    "metrics_enabled": True,
    "metrics_port": None,
    "metrics_interface": "127.0.0.1",
    "traces_enabled": False,
    "name": None,
    "version": None,
    "agent": None,
    "assistant": None,
}


def test_a_description_is_all_that_a_file_needs(tmp_path: Path) -> None:
    settings, problems = load_settings(write(tmp_path, 'a2a_server:\n  description: "Banking"\n'), {})

    assert problems == []
    assert settings.model_dump() == {"description": "Banking", **DOCUMENTED, **ADDED}


def test_without_a_file_the_same_defaults_hold() -> None:
    settings, problems = load_settings(None, {})

    assert problems == []
    assert settings.model_dump() == {"description": None, **DOCUMENTED, **ADDED}


def test_every_setting_says_what_it_is_for() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


@pytest.mark.parametrize(("timeout", "ttl"), [(30, 30), (0, 0)])
def test_messages_are_replayed_for_as_long_as_a_task_may_run(timeout: int, ttl: int) -> None:
    assert Settings(task_timeout_seconds=timeout).a2a_message_cache_ttl_seconds == ttl


def test_the_replay_time_can_be_set_alone() -> None:
    assert Settings(task_timeout_seconds=30, a2a_message_cache_ttl_seconds=0).a2a_message_cache_ttl_seconds == 0


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().max_contexts = 1


def test_a_store_password_is_not_in_the_repr() -> None:
    settings = Settings(redis_url="redis://:hush@host/0")

    assert "hush" not in repr(settings)
    assert settings.store_url == "redis://:hush@host/0"
    with pytest.raises(ValueError, match="no store"):
        _ = Settings().store_url


def test_the_whole_documented_block_is_read(tmp_path: Path) -> None:
    text = """\
action_endpoint:
  url: "http://localhost:5055/webhook"
a2a_server:
  url: "https://agents.example.com/bank/"
  description: "Banking assistant sub-agent"
  include_conversation_repair: false
  task_timeout_seconds: 60
  max_contexts: 0
  push_notifications_enabled: false
  push_notification_allowed_hosts: ["Orchestrator.example.com", hooks.partner.example.com.]
  forwarded_allow_ips: 10.0.0.0/8, ::1
  namespace: bank
"""
    settings, problems = load_settings(write(tmp_path, text), {})

    assert problems == []
    assert settings.url == "https://agents.example.com/bank"
    assert settings.include_conversation_repair is False
    assert settings.a2a_message_cache_ttl_seconds == 60
    assert settings.push_notification_allowed_hosts == ("orchestrator.example.com", "hooks.partner.example.com")
    assert settings.forwarded_allow_ips == ("10.0.0.0/8", "::1")


def test_a_static_card_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "Bank"}')
    file = write(tmp_path, "a2a_server: {description: x, agent_card_path: ./card.json}")

    settings, problems = load_settings(file, {})

    assert problems == []
    assert settings.agent_card_path == tmp_path / "card.json"


def test_merged_and_aliased_values_are_read(tmp_path: Path) -> None:
    text = """\
shared: &shared
  max_contexts: 7
a2a_server:
  <<: *shared
  description: &text hello
  name: *text
"""
    settings, problems = load_settings(write(tmp_path, text), {})

    assert problems == []
    assert (settings.max_contexts, settings.description, settings.name) == (7, "hello", "hello")
