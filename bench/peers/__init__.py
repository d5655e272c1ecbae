"""Servers to compare with. Each file is a program of its own, run by the Python of its peer's environment."""
