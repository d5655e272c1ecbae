"""The `a2a_server:` block of endpoints.yml, read into settings or refused with every problem it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from server.auth.settings import SECRET_PATHS
from server.config.document import Document, Override, Place, read_block, refuse_tls
from server.config.explain import explain
from server.config.interpolate import MalformedReference, UnsetVariable, has_reference, interpolate, is_reference
from server.config.problems import ConfigProblem, ConfigRefused
from server.config.settings import Settings

BLOCK = "a2a_server"
PUSH_SECRETS = (("push_signing_keys", "*"), ("push_encryption_keys", "*"))
FLAG_ONLY = {
    name: str(field.json_schema_extra["flag"])
    for name, field in Settings.model_fields.items()
    if isinstance(field.json_schema_extra, dict) and "flag" in field.json_schema_extra
}


def load_settings(
    file: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Override] | None = None,
    fallbacks: Mapping[str, Override] | None = None,
) -> tuple[Settings, list[ConfigProblem]]:
    """Settings of the file, or the defaults without one; overrides win over it, fallbacks lose to it.

    Returns the problems that leave the settings readable, so that the caller can add its own and report them
    together; raises `ConfigRefused` when there are no settings to go on with.
    """
    document = Document(Path("defaults")) if file is None else read_block(file, BLOCK)
    if file is not None and not document.problems:
        _check_block(document)
    reader = _Reader(document, environ)
    values = {
        key: reader.read(value, (key,))
        for key, value in document.values.items()
        if key != "tls" and key not in FLAG_ONLY
    }
    elsewhere = {name: spare for name, spare in (fallbacks or {}).items() if values.get(name) is None}
    elsewhere.update(overrides or {})
    values.update({name: override.value for name, override in elsewhere.items()})
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        document.problems.extend(explain(error, document, reader.silent, elsewhere))
        raise ConfigRefused(document.problems) from None
    _check_card(settings, document)
    return settings, document.problems


class _Reader:
    """Interpolates a block; `silent` are the places whose value is not to be judged or shown."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self.silent: dict[Place, bool] = {}  # place -> whether it has been refused already

    def read(self, value: Any, place: Place) -> Any:
        if isinstance(value, dict):
            return {key: self.read(child, (*place, key)) for key, child in value.items()}
        if isinstance(value, list):
            return [self.read(child, (*place, index)) for index, child in enumerate(value)]
        self._refuse_plaintext(value, place)
        if not isinstance(value, str):
            return value
        text = self._interpolated(value, place)
        if str(place[-1]).endswith("_path") and text and place not in self.silent:
            # As in any configuration file, a path is relative to the file that names it.
            return str(self._document.file.resolve().parent / Path(text).expanduser())
        return text

    def _interpolated(self, raw: str, place: Place) -> str:
        try:
            text = interpolate(raw, self._environ)
        except UnsetVariable as error:
            return self._refuse(
                "variable_not_set",
                place,
                f"the environment variable {error.name} is not set",
                f"Set {error.name} where the server runs, or write the value instead.",
            )
        except MalformedReference as error:
            return self._refuse(
                "variable_malformed",
                place,
                str(error),
                "Write ${NAME} with letters, digits and underscores, or $${ for a literal ${.",
            )
        if is_secret(place) and is_reference(raw) and not text:
            return self._refuse(
                "secret_empty",
                place,
                f"the environment variable {raw.strip()[2:-1]} is empty",
                "Set it to the secret where the server runs.",
            )
        if text != raw:
            self.silent.setdefault(place, False)
        return text

    def _refuse(self, code: str, place: Place, message: str, hint: str) -> str:
        self._document.refuse(code, place, f"{_name(place)}: {message}.", hint)
        self.silent[place] = True
        return ""

    def _refuse_plaintext(self, value: object, place: Place) -> None:
        plain_secret = is_secret(place) and value is not None and not is_reference(str(value))
        if not plain_secret and not (place == ("redis_url",) and _has_plain_password(value)):
            return
        self._refuse(
            "plaintext_secret",
            place,
            "a secret stands in the file itself",
            "Write ${YOUR_VARIABLE} in its place, with nothing around a secret, and set the variable where the "
            "server runs.",
        )


def is_secret(place: Place) -> bool:
    steps = tuple("*" if isinstance(step, int) else step for step in place)
    return (steps[:1] == ("auth",) and steps[1:] in SECRET_PATHS) or steps in PUSH_SECRETS


def _has_plain_password(url: object) -> bool:
    try:
        parts = urlsplit(str(url))
        passwords = [parts.password or "", *parse_qs(parts.query).get("password", [])]
    except ValueError:
        return False
    return any(password and not has_reference(password) for password in passwords)


def _check_block(document: Document) -> None:
    if "tls" in document.values:
        refuse_tls(document, ("tls",))
    if document.values.get("description") is None:
        document.refuse(
            "missing_key",
            ("description",),
            "description: the one setting without a default is missing.",
            'Add `description: "What this agent does, for the orchestrators that choose it"`.',
        )
    for name, flag in FLAG_ONLY.items():
        if name in document.values:
            document.refuse("flag_only", (name,), f"{name} is not a setting of the file.", f"Start with {flag}.")


def _check_card(settings: Settings, document: Document) -> None:
    path = settings.agent_card_path
    if path is None:
        return
    try:
        card = json.loads(path.read_bytes())
    except OSError as error:
        message = f"agent_card_path: {path} can't be read: {error.strerror}."
    except ValueError as error:
        message = f"agent_card_path: {path} is not JSON: {error}."
    else:
        if isinstance(card, dict):
            return
        message = f"agent_card_path: {path} holds no JSON object."
    document.refuse(
        "agent_card_invalid",
        ("agent_card_path",),
        message,
        "Correct the file or its path (relative to the settings file), or remove the key: the card is then made "
        "from the agent's skills.",
    )


def _name(place: Place) -> str:
    return ".".join(str(step) for step in place)
