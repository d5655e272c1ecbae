"""What deliveries are allowed to take, and with which keys they are signed and sealed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Persistence:
    """How long a delivery insists. Delays double from `first_s` on, each with jitter, up to `longest_s`."""

    attempts: int = 8
    first_s: float = 1.0
    longest_s: float = 300.0

    def delay(self, attempt: int, chance: float, asked_s: float | None) -> float:
        """Seconds to wait after a failed attempt. `chance` in [0, 1) spreads receivers' retries; `asked_s` is the
        receiver's own wish, which can only lengthen the wait, within bounds."""
        bound = min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, 30))
        wait: float = bound * (0.5 + chance / 2)
        return min(self.longest_s, max(wait, asked_s or 0.0))
