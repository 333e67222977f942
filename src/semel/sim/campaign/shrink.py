"""From a failing seed to the little that makes it fail: fewer faults, less time.

A history is told again with only some of its occasions (Zeller's ddmin over their numbers) and with a shorter
time of faults, and what still violates the same invariant is kept. Leaving a fault out changes what comes
after it, so a smaller telling is a history of its own; only that the same invariant falls counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from semel.sim.campaign.simulation import SeedResult, Telling
from semel.sim.world.faults import Occasion

RUNS_MAX: Final = 150
SECONDS_MAX: Final = 120.0  # one that hangs takes long, each time

Run = Callable[[int, Telling], SeedResult]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest telling that was found, and how it ended."""

    telling: Telling
    result: SeedResult
    runs: int

    @property
    def occasions(self) -> tuple[Occasion, ...]:
        return self.result.occasions


class Shrinker:
    """Shrinks one failing seed within a bound of runs and of time."""

    def __init__(
        self,
        failure: SeedResult,
        run: Run,
        runs_max: int = RUNS_MAX,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self._failure = failure
        self._run = run
        self._runs_left = runs_max
        self._runs_max = runs_max
        self._deadline_s = time.monotonic() + seconds_max

    def shrink(self) -> Shrunk:
        whole = Telling()
        # With fewer faults it would take long to have as many: what failed had no more time than it took.
        whole = replace(whole, faults_for_ms_max=min(whole.faults_for_ms_max, self._failure.simulated_ms))
        best = Shrunk(whole, self._failure, 0)
        for telling in (replace(whole, operations_min=0, faults_min=0), whole):  # the first ends sooner
            result = self._fails(telling)
            if result is not None:
                best = Shrunk(telling, result, 0)
                break
        best = self._shorten(best)
        best = self._fewer(best)
        best = self._shorten(best)
        telling = best.telling
        if telling.kept is not None:  # less those that it ended before
            telling = replace(telling, kept=frozenset(occasion.number for occasion in best.occasions))
        return Shrunk(telling, best.result, self._runs_max - self._runs_left)

    @property
    def _is_over(self) -> bool:
        return self._runs_left <= 0 or time.monotonic() >= self._deadline_s

    def _fails(self, telling: Telling) -> SeedResult | None:
        if self._is_over:
            return None
        self._runs_left -= 1
        result = self._run(self._failure.seed, telling)
        return result if result.invariant == self._failure.invariant else None

    def _shorten(self, best: Shrunk) -> Shrunk:
        """Halve the time of faults as long as it still fails."""
        for_ms = min(best.telling.faults_for_ms_max, best.result.simulated_ms)
        while for_ms > 100:
            for_ms //= 2
            telling = replace(best.telling, faults_for_ms_max=for_ms)
            result = self._fails(telling)
            if result is None:
                break
            best = Shrunk(telling, result, 0)
        return best

    def _fewer(self, best: Shrunk) -> Shrunk:
        """ddmin: leave out ever smaller chunks."""
        kept = sorted(occasion.number for occasion in best.occasions)
        chunks = 2
        while kept and not self._is_over:
            size = max(1, len(kept) // chunks)
            for start in range(0, len(kept), size):
                fewer = kept[:start] + kept[start + size :]
                telling = replace(best.telling, kept=frozenset(fewer))
                result = self._fails(telling)
                if result is not None:
                    best = Shrunk(telling, result, 0)
                    kept = sorted(occasion.number for occasion in best.occasions)
                    chunks = max(2, chunks - 1)
                    break
            else:
                if size == 1:
                    break
                chunks = min(len(kept), 2 * chunks)
        return best
