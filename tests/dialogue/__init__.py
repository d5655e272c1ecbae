"""Tests of the flow assistant."""
