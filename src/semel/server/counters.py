"""What the server counts while it works: plain integers on the hot path, read by ``metrics``."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

from semel.core.producer_state.verdict import APPEND
from semel.server.storage.outcome import AppendOutcome

SYNC_SECONDS_BOUNDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
)

_APPEND: Final = type(APPEND).__name__


class Counters:
    """Totals since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, int]] = Counter()  # by API key and version
        self.verdicts: Counter[str] = Counter()  # on batches, by the name of the verdict
        self.errors: Counter[str] = Counter()  # of appends, by the name of the error code
        self.fetched_bytes = 0
        self.connections_refused = 0
        self.sync_buckets = [0] * (len(SYNC_SECONDS_BOUNDS) + 1)
        self.sync_seconds_sum = 0.0

    def count_append(self, outcome: AppendOutcome) -> None:
        if outcome.verdict is not None:
            self.verdicts[type(outcome.verdict).__name__] += 1
        if outcome.error_code:
            self.errors[outcome.error_code.name] += 1

    def count_produced(self, api_key: int, produced: Sequence[tuple[int, AppendOutcome]]) -> None:
        """Produce requests of one batch each, by version and outcome: mostly all of one kind."""
        version = produced[0][0]
        appended = sum([each.verdict is APPEND and one == version for one, each in produced])
        if appended:
            self.requests[api_key, version] += appended
            self.verdicts[_APPEND] += appended
        if appended < len(produced):
            for one, each in produced:
                if each.verdict is not APPEND or one != version:
                    self.requests[api_key, one] += 1
                    self.count_append(each)

    def count_marker(self, outcome: AppendOutcome) -> None:
        self.verdicts["Refused marker" if outcome.error_code else "Marker"] += 1

    def observe_sync_seconds(self, seconds: float) -> None:
        self.sync_buckets[bisect_left(SYNC_SECONDS_BOUNDS, seconds)] += 1
        self.sync_seconds_sum += seconds
