"""Flows to copy, and :mod:`examples.kill`, which shows that they are exactly once."""
