"""Every reason not to start: its code, the line it is about, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from server.config import ConfigProblem, ConfigRefused
from server.config.endpoints import load_settings
from tests.config.files import write

HEAD = "a2a_server:\n  description: x\n"  # what a case adds begins on line 3


def refusals(file: Path, environ: Mapping[str, str] | None = None) -> list[ConfigProblem]:
    try:
        _, problems = load_settings(file, environ or {})
    except ConfigRefused as refused:
        return list(refused.problems)
    return problems


def short(problem: ConfigProblem) -> tuple[str, int]:
    assert problem.code.startswith("validation.a2a_server.")
    return problem.code.removeprefix("validation.a2a_server."), int(problem.where.rpartition(":")[2])


@pytest.mark.parametrize(
    ("added", "code", "line", "said"),
    [
        ("  tls: {cert: a}", "tls_block", 3, "--ssl-certificate"),
        ("tls: {cert: a}", "tls_block", 3, "--ssl-certificate"),
        ("  max_context: 3", "unknown_key", 3, "Did you mean max_contexts?"),
        ("  maxContexts: 3", "unknown_key", 3, "Did you mean max_contexts?"),
        ("\n  task-timeout-second: 3", "unknown_key", 4, "Did you mean task_timeout_seconds?"),
        ("  colour: blue", "unknown_key", 3, "Valid here: a2a_message_cache_ttl_seconds"),
        ("  SANIC_WORKERS: 1", "unknown_key", 3, "Remove it"),
        ("  agent: a:B", "flag_only", 3, "--agent"),
        ("  max_contexts: 1\n  max_contexts: 2", "duplicate_key", 4, "Keep one"),
        ("  max_contexts: many", "wrong_type", 3, "not 'many'"),
        ("  max_contexts: 1.5", "wrong_type", 3, "not 1.5"),
        ("  max_contexts: yes", "wrong_type", 3, "not a switch"),
        ("  max_contexts:", "wrong_type", 3, "default (1000)"),
        ("  max_contexts: [1]", "wrong_type", 3, "default (1000)"),
        ("  max_contexts: -1", "out_of_range", 3, "greater than or equal to 0"),
        ("  task_timeout_seconds: -1", "out_of_range", 3, "default (600)"),
        ("  task_timeout_seconds: 99999999999", "out_of_range", 3, "less than"),
        ("  sse_keepalive_seconds: 3.1", "out_of_range", 3, "less than or equal to 3"),
        ("  sse_keepalive_seconds: .inf", "out_of_range", 3, "not inf"),
        ("  heartbeat_seconds: 4\n  presumed_dead_seconds: 7", "out_of_range", 4, "twice heartbeat_seconds"),
        ("  include_conversation_repair: perhaps", "wrong_type", 3, "default (true)"),
        ("  version: 1.0", "wrong_type", 3, "quotes"),
        ("  version: 2024-99-99", "invalid_value", 3, "quotes"),
        ("  name: ''", "out_of_range", 3, "at least 1 character"),
        ("  message_id_reuse: maybe", "not_a_choice", 3, "'reject' or 'replay'"),
        ("  log_level: loud", "not_a_choice", 3, "not 'loud'"),
        ("  url: localhost:5005", "url_invalid", 3, "http:// or https://"),
        ("  url: 'http://user:pw@host'", "url_invalid", 3, "without credentials"),
        ("  url: 'http://host/?a=1'", "url_invalid", 3, "query"),
        ("  url: 'http://host:99999'", "url_invalid", 3, "http://"),
        ("  url: 'http://[::1'", "url_invalid", 3, "http://"),
        ("  redis_url: localhost", "redis_url_invalid", 3, "redis://host:6379/0"),
        ("  redis_url: 'http://host'", "redis_url_invalid", 3, "redis://host:6379/0"),
        ("  redis_url: 'redis://:hush@host/0'", "plaintext_secret", 3, "${YOUR_VARIABLE}"),
        ("  redis_url: 'unix:///s?password=hush'", "plaintext_secret", 3, "${YOUR_VARIABLE}"),
        ("  redis_url: 'redis+cluster://host/3'", "redis_url_invalid", 3, "redis://host:6379/0"),
        ("  namespace: 'a b'", "invalid_value", 3, "namespace"),
        ("  forwarded_allow_ips: [nginx]", "network_invalid", 3, "IP address"),
        ("  push_notification_allowed_hosts: hooks.example.com", "wrong_type", 3, "push_notification_allowed_hosts"),
        ("  push_notification_allowed_hosts:\n  - a.example\n  - https://b", "host_invalid", 5, "without scheme"),
        ("  push_signing_keys: [whsec_abc]", "plaintext_secret", 3, "${YOUR_VARIABLE}"),
        ("  push_encryption_keys:\n  - '${EMPTY}'", "secret_empty", 4, "EMPTY is empty"),
        ("  push_signing_keys: ['${KEY}']", "push_signing_key", 3, "whsec_"),
        ("  push_encryption_keys: ['${KEY}']", "push_encryption_key", 3, "32 bytes"),
        ("  push_signing_keys: ['${W}', '${W}', '${W}']", "out_of_range", 3, "at most 2"),
        ("  push_max_attempts: 0", "out_of_range", 3, "default (8)"),
        ("  push_allow_private_targets_for_tests_only: maybe", "not_a_choice", 3, "force"),
        ("  agent_card_path: nowhere.json", "agent_card_invalid", 3, "No such file"),
        ("  agent_card_path: endpoints.yml", "agent_card_invalid", 3, "not JSON"),
        ("  name: ${NOPE}", "variable_not_set", 3, "Set NOPE"),
        ("  name: ${NO-PE}", "variable_malformed", 3, "${NAME}"),
        ("  auth: {type: basic}", "auth_type", 3, "bearer"),
        ("  auth:\n    typ: bearer", "unknown_key", 4, "Did you mean type?"),
        ("  auth:\n    type: bearer\n    jwt:\n      algorythm: RS256", "unknown_key", 6, "Did you mean algorithm?"),
        ("  auth:\n    type: bearer\n    jwt:\n      secret: hush", "plaintext_secret", 6, "${YOUR_VARIABLE}"),
        ("  auth:\n    type: bearer\n    jwt:\n      secret: 'a${KEY}'", "plaintext_secret", 6, "nothing around"),
        ("  auth:\n    type: bearer\n    jwt:\n      secret: '${EMPTY}'", "secret_empty", 6, "EMPTY is empty"),
        ("  auth:\n    type: bearer", "jwt_missing", 3, "auth.jwt"),
        ("  <<: 3", "yaml_syntax", 3, "Correct this line"),
        ("  name: !env X", "yaml_syntax", 3, "Correct this line"),
        (" name: 'x", "yaml_syntax", 3, "Correct this line"),
        ("  name: &a [*a]", "invalid_value", 3, "nested"),
        ("---\nb: 1", "yaml_syntax", 3, "Correct this line"),
        ("a2a_server: {description: y}", "duplicate_key", 3, "Keep one"),
    ],
)
def test_a_mistake_is_refused_on_its_line(tmp_path: Path, added: str, code: str, line: int, said: str) -> None:
    problems = refusals(write(tmp_path, HEAD + added), {"KEY": "k" * 64, "EMPTY": "", "W": "whsec_" + "A" * 32})

    assert (code, line) in [short(problem) for problem in problems]
    refusal = next(problem for problem in problems if short(problem) == (code, line))
    assert said in f"{refusal.message} {refusal.hint}"
    assert "hush" not in str(problems)


@pytest.mark.parametrize(
    ("text", "code", "line", "said"),
    [
        ("", "missing_block", 1, "a2a_server"),
        ("\n\na2a_sever:\n  description: x\n", "missing_block", 1, "Rename a2a_sever to a2a_server."),
        ("- a", "not_a_mapping", 1, "a2a_server:"),
        ("\na2a_server: 3", "not_a_mapping", 2, "indented"),
        ("x: 1\na2a_server:\n  max_contexts: 1\n", "missing_key", 2, "description"),
        ("a2a_server:\n", "missing_key", 1, "description"),
        ("a2a_server: \x00", "yaml_syntax", 1, "not valid YAML"),
    ],
)
def test_a_file_without_the_block_is_refused(tmp_path: Path, text: str, code: str, line: int, said: str) -> None:
    (refusal,) = refusals(write(tmp_path, text))

    assert short(refusal) == (code, line)
    assert said in f"{refusal.message} {refusal.hint}"


def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    (absent,) = refusals(tmp_path / "absent.yml")
    (folder,) = refusals(tmp_path)
    (tmp_path / "latin.yml").write_bytes(b"a2a_server: {description: caf\xe9}")
    (latin,) = refusals(tmp_path / "latin.yml")

    assert {absent.code, folder.code, latin.code} == {"validation.a2a_server.file_unreadable"}
    assert absent.where == str(tmp_path / "absent.yml")
    assert "--endpoints" in absent.hint
    assert "UTF-8" in latin.message


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
a2a_server:
  tls: {}
  max_contexts: many
  queue_limt: 3
  redis_url: ${NOPE}
  auth:
    type: bearer
    jwt:
      secret: hush
"""
    problems = refusals(write(tmp_path, text))

    assert {short(problem) for problem in problems} >= {
        ("tls_block", 2),
        ("missing_key", 1),
        ("wrong_type", 3),
        ("unknown_key", 4),
        ("variable_not_set", 5),
        ("plaintext_secret", 9),
    }
    assert len({short(problem) for problem in problems}) == len(problems)
    text = str(ConfigRefused(problems))
    assert "hush" not in text
    assert f"validation.a2a_server.unknown_key at {tmp_path}/endpoints.yml:4" in text
    assert "What to do: Did you mean queue_limit?" in text
