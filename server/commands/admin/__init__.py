"""The operator's commands: against the store itself, so that they work with every server down."""
