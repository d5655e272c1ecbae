"""The pusher of one worker, made of the server's settings."""

from __future__ import annotations

import logging

from server.config.settings import Settings
from server.push.attempt import Lanes, Poster
from server.push.connect import CallbackClient
from server.push.delivery import Means
from server.push.policy import CallbackPolicy
from server.push.pusher import Pusher
from server.push.secrets import SecretBox, sealing_key
from server.push.settings import Persistence
from server.push.signing import Signer, signing_key
from server.turns.follow import Following
from server.turns.worker import Worker

log = logging.getLogger(__name__)


def build_pusher(settings: Settings, worker: Worker) -> Pusher:
    """Everything a worker needs to serve callbacks; it starts with the first delivery."""
    policy = CallbackPolicy(
        tuple(settings.push_notification_allowed_hosts or ()),
        push_allow_private_targets_for_tests_only=bool(settings.push_allow_private_targets_for_tests_only),
    )
    box = SecretBox([sealing_key(text) for text in settings.push_encryption_keys])
    if not box.sealing:
        log.warning(
            "a2a_server.push.not_encrypted: set push_encryption_keys, or callbacks' secrets are stored readable"
        )
    if settings.push_allow_private_targets_for_tests_only:
        log.warning(
            "a2a_server.push.private_targets_allowed: callers can reach this machine's networks; for tests only"
        )
    signer = Signer([signing_key(text) for text in settings.push_signing_keys]) if settings.push_signing_keys else None
    means = Means(
        store=worker.store,
        following=Following(worker.store, worker.hub),
        poster=Poster(CallbackClient(policy), signer, Lanes(settings.push_concurrency)),
        box=box,
        persistence=Persistence(settings.push_max_attempts, settings.push_retry_seconds),
    )
    return Pusher(worker, policy, means)
