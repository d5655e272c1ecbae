"""What nonstick costs, measured beside its peers and the bare limit; see docs/performance.md."""
