"""What push notifications ask of the settings: no private targets in public, and a word about missing keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.config import ConfigRefused, Flags, Plan, make_plan
from tests.config.files import write

ON = "  push_notifications_enabled: true\n"
ENVIRON = {"SIGN": "whsec_" + "A" * 32, "SEAL": "ab" * 32, "REDIS_URL": "redis://host/0"}
KEYS = "  push_signing_keys: ['${SIGN}']\n  push_encryption_keys: ['${SEAL}']\n"


def plan(folder: Path, added: str, interface: str = "127.0.0.1") -> Plan:
    file = write(folder, f"a2a_server:\n  description: x\n{added}")
    return make_plan(Flags(agent="examples.echo:Echo", endpoints=file, interface=interface), ENVIRON)


def test_push_with_its_keys_has_nothing_to_note(tmp_path: Path) -> None:
    made = plan(tmp_path, ON + KEYS)
    assert made.settings.push_notifications_enabled
    assert not [note for note in made.notes() if "push" in note]


def test_missing_keys_are_noted_when_push_is_on(tmp_path: Path) -> None:
    notes = " ".join(plan(tmp_path, ON).notes())
    assert "push_encryption_keys is not set" in notes
    assert "push_signing_keys is not set" in notes
    assert "push_" not in " ".join(plan(tmp_path, "").notes())


@pytest.mark.parametrize("interface", ["0.0.0.0", "::", "10.0.0.1"])
def test_private_targets_are_refused_where_others_can_reach_us(tmp_path: Path, interface: str) -> None:
    setting = "  push_allow_private_targets_for_tests_only: "
    with pytest.raises(ConfigRefused) as caught:
        plan(tmp_path, f"{ON}{setting}true", interface)
    assert [problem.code for problem in caught.value.problems] == ["validation.a2a_server.private_targets"]
    for forced in (plan(tmp_path, f"{ON}{setting}force", interface), plan(tmp_path, f"{ON}{setting}true")):
        assert "for_tests_only is set" in " ".join(forced.notes())


def test_keys_are_not_shown(tmp_path: Path) -> None:
    settings = plan(tmp_path, ON + KEYS).settings
    assert ENVIRON["SIGN"] not in repr(settings)
    assert ENVIRON["SEAL"] not in repr(settings)
