"""What can go wrong with the store itself; expected outcomes are replies, never these.

StoreError
 |- StoreUnavailable   Redis is away, slow, failing over or refusing us: safe to repeat later
 |   |- StoreFull      Redis has no memory left for a write
 |   '- StoreDenied    Redis refuses this user: somebody may be changing its rights or password just now
 |- StoreMisconfigured Redis can be reached but must not be used as it is set up (start-up)
 '- StoreCorrupt       a reply or record we do not understand
"""


class StoreError(Exception):
    """Base of everything the store raises."""


class StoreUnavailable(StoreError):
    """Redis did not answer, or answered that it can't now."""


class StoreFull(StoreUnavailable):
    """Redis refused a write for lack of memory."""


class StoreDenied(StoreUnavailable):
    """Redis refuses this user."""


class StoreMisconfigured(StoreError):
    """Redis answers, but keeping promises on it is not possible."""


class StoreCorrupt(StoreError):
    """Redis answered something no release of ours writes."""
