"""A push config as it is stored: everything its caller gave us is sealed, the URL too, since paths carry secrets."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from server.protocol.model import PushConfig
from server.push.secrets import SecretBox

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Registered:
    """A config with what was decided when it was registered. `every`: states on the way are wanted, too."""

    id: str
    config: PushConfig
    every: bool


def config_name(config_id: str) -> str:
    """The store's name of a config: client text does not become part of a field's name."""
    return hashlib.blake2b(config_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def dump_config(box: SecretBox, task_id: str, registered: Registered) -> str:
    config = registered.config
    secret = json.dumps([config.url, config.token, list(config.auth_schemes), config.credentials]).encode()
    doc = {
        "v": SCHEMA,
        "id": registered.id,
        "dialect": config.dialect,
        "every": registered.every,
        "secret": box.seal(secret, task_id, registered.id),
    }
    return json.dumps(doc, separators=(",", ":"))


def load_config(box: SecretBox, task_id: str, doc: str) -> Registered:
    """Raises SecretUnreadable where the key it was sealed with is not at hand."""
    raw = json.loads(doc)
    url, token, schemes, credentials = json.loads(box.open(raw["secret"], task_id, raw["id"]))
    config = PushConfig(raw["id"], url, token, tuple(schemes), credentials, raw["dialect"])
    return Registered(raw["id"], config, raw["every"])


def stored_id(doc: str) -> str:
    """The config's id, which needs no key."""
    return str(json.loads(doc)["id"])
