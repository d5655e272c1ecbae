"""What can go wrong on the way to a callback.

PushError
 |- CallbackRefused    the address is against the policy: InvalidParams at registration
 |- DeliveryFailed     the receiver cannot be reached or does not answer: tried again later
 |- SecretUnreadable   stored credentials cannot be opened with the keys at hand
 '- PushSettingError   the operator's settings: the start is refused
"""


class PushError(Exception):
    """Everything this package raises."""


class CallbackRefused(PushError):
    """A callback URL we do not call; the sentence is for the caller and repeats no path, query or address."""

    def __init__(self, reason: str, sentence: str, *, retriable: bool = False) -> None:
        """`retriable` says that the same URL may pass later, as when DNS did not answer."""
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence
        self.retriable = retriable


class DeliveryFailed(PushError):
    """One POST that did not come to an answer; the reason is one word for logs and the dead letter."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


class SecretUnreadable(PushError):
    """An envelope that does not open: unknown key, or it is not what was sealed for this task and config."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.sentence = sentence


class PushSettingError(PushError, ValueError):
    """A setting that must stop the start; the sentence says what to do."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = f"validation.a2a_server.{code}"
        self.sentence = sentence
