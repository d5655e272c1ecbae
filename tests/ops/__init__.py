"""What an operator does: commands, metrics, logs, manifests and runbooks."""
