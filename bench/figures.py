"""Medians, spread and ratios of what was measured round by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SIGMAS_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some figures, and the least and the greatest of them."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def interval_of_median(values: Sequence[float]) -> Spread:
    """The median, and between which of the values the true one lies with a certainty of 95 %.

    Whatever the values' distribution: each is above the true median or below, like the two sides of a coin.
    """
    ordered, count = sorted(values), len(values)
    aside = max(0, int((count - _SIGMAS_95 * math.sqrt(count)) / 2))
    return Spread(statistics.median(ordered), ordered[aside], ordered[-1 - aside])


def ratios(ours: Sequence[float], theirs: Sequence[float], *, less_is_better: bool = False) -> Spread:
    """How much better we are, round by round: above 1 is in our favour.

    The rounds of the two are neighbours in time, so what slowed the machine down slowed down both of a pair.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of ours and {len(theirs)} of theirs are no pairs")
    pairs = zip(theirs, ours, strict=True) if less_is_better else zip(ours, theirs, strict=True)
    return Spread.of([better / worse for better, worse in pairs])
