"""Medians, spread and ratios of what was measured round by round."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some figures, and the least and the greatest of them."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float], *, less_is_better: bool = False) -> Spread:
    """How much better we are, round by round: above 1 is in our favour.

    The rounds of the two are neighbours in time, so what slowed the machine down slowed down both of a pair.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of ours and {len(theirs)} of theirs are no pairs")
    pairs = zip(theirs, ours, strict=True) if less_is_better else zip(ours, theirs, strict=True)
    return Spread.of([better / worse for better, worse in pairs])
