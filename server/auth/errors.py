"""What can go wrong when someone comes in.

AuthError
 |- Unauthenticated    the request's credentials: HTTP 401
 |   '- KeysUnavailable   ours: the key set cannot be fetched, so nothing can be verified now
 '- AuthSettingError   the operator's settings: the start is refused
"""


class AuthError(Exception):
    """Everything this package raises."""


class Unauthenticated(AuthError):
    """The request carries no credentials that prove a caller; it never carries the credentials themselves."""

    def __init__(self, reason: str, error: str | None, description: str) -> None:
        """`reason` is the word for the log, `error` the RFC 6750 code (None: no credentials were sent)."""
        super().__init__(description)
        self.reason = reason
        self.error = error
        self.description = description


class KeysUnavailable(Unauthenticated):
    """No key is known and none can be fetched: HTTP 503 says it better than 401, which also holds."""

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("keys_unavailable", "invalid_token", "the token can not be verified at the moment")
        self.retry_after_seconds = retry_after_seconds


class AuthSettingError(AuthError, ValueError):
    """A setting that must stop the start; the sentence says what to do."""

    def __init__(self, code: str, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = f"validation.a2a_server.{code}"
        self.field = field
        self.sentence = sentence
