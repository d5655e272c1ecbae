"""The load: a process of its own that sends, checks every answer, and says how long each took."""
