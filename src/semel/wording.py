"""How messages speak of numbers, and of other errors."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def one_line(error: object) -> str:
    """What ``error`` says, on one line; its class where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
