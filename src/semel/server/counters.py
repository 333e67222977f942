"""What the server counts while it works: plain integers on the hot path, read by ``metrics``."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from semel.core.producer_state.table import TABLE, Marker
from semel.core.producer_state.verdict import APPEND, Verdict
from semel.errors import ErrorCode
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

_BATCH, _MARKER = "batch", "marker"


def _key(of: str, verdict: type[Verdict], error_code: ErrorCode) -> str:
    return f"{of}/{verdict.__name__}/{error_code.name}"


_APPEND: Final = _key(_BATCH, type(APPEND), ErrorCode.NONE)
_KEYS: Final = tuple(
    _key(_MARKER if isinstance(row.sent, Marker) else _BATCH, row.outcome.verdict, row.outcome.code)
    for row in TABLE
)


class Counters:
    """Totals since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, int]] = Counter()  # by API key and version
        self.verdicts: Counter[str] = Counter(dict.fromkeys(_KEYS, 0))  # see ``verdict_series``
        self.errors: Counter[str] = Counter()  # of batches and markers, by the name of the error code
        self.fetched_bytes = 0
        self.connections_refused = 0
        self.sync_buckets = [0] * (len(SYNC_SECONDS_BOUNDS) + 1)
        self.sync_seconds_sum = 0.0

    def count_append(self, outcome: AppendOutcome) -> None:
        self._count(_BATCH, outcome)

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
        self._count(_MARKER, outcome)

    def _count(self, of: str, outcome: AppendOutcome) -> None:
        if outcome.verdict is not None:
            self.verdicts[_key(of, type(outcome.verdict), outcome.error_code)] += 1
        if outcome.error_code:
            self.errors[outcome.error_code.name] += 1

    def verdict_series(self) -> Iterator[tuple[list[str], int]]:
        """For each outcome in the table of verdicts, of what (batch or marker), verdict and error code; how many."""
        return ((key.split("/"), count) for key, count in self.verdicts.items())

    def observe_sync_seconds(self, seconds: float) -> None:
        self.sync_buckets[bisect_left(SYNC_SECONDS_BOUNDS, seconds)] += 1
        self.sync_seconds_sum += seconds
