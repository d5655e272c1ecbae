"""The flow assistant: flows, slots and conversation repair as a pure machine; only its actions do I/O."""
