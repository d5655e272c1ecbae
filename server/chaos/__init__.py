"""The chaos suite: a fleet of its own, a load, random faults, and a ledger kept outside the system that judges it."""
