"""``/metrics`` of a landing job for Prometheus. A scrape asks neither the log nor the table anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from semel.land.told import Progress

_LABELS: Final = ["table", "job"]


class LandCollector(Collector):
    """Makes the page of a job's progress."""

    def __init__(self, table: str, job: str, progress: Progress) -> None:
        self._labels, self._progress = [table, job], progress

    def collect(self) -> Iterable[Metric]:
        """Of this copy, since it was started."""
        progress = self._progress
        counters = {
            "rows": ("Rows committed", progress.rows),
            "bad_rows": ("Rows read whose value does not fit", progress.bad_rows),
            "files": ("Files committed", progress.files),
            "files_compacted": ("Files that compaction has replaced", progress.files_compacted),
            "compactions_failed": (
                "Compactions that failed and left the table as it was",
                progress.compactions_failed,
            ),
            "commits": ("Commits", progress.commits),
        }
        for name, (told, number) in counters.items():
            counter = CounterMetricFamily(
                f"semel_land_{name}", f"{told} since the job was started", labels=_LABELS
            )
            counter.add_metric(self._labels, number)
            yield counter
        lag = GaugeMetricFamily("semel_land_lag", "Offsets that are not read", labels=_LABELS)
        lag.add_metric(self._labels, progress.lag)
        yield lag
        if progress.last_commit_ms is not None:
            last = GaugeMetricFamily(
                "semel_land_last_commit_seconds", "When the last commit was, since 1970", labels=_LABELS
            )
            last.add_metric(self._labels, progress.last_commit_ms / 1000)
            yield last
