"""Keeps the promises of the turn engine in Redis; knows nothing of A2A, HTTP or agents."""

from stores.store import Store, open_store

__all__ = ["Store", "open_store"]
