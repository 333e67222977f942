"""``/metrics`` of a copy for Prometheus, topic by topic. A scrape asks neither cluster anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from semel.copy.run import Copied
from semel.scrape import serve_collector

_LABELS: Final = ["job", "topic"]


class CopyCollector(Collector):
    """Makes the page of what a copy has told last; nothing before it has told anything."""

    def __init__(self, job: str, newest: Callable[[], Copied | None]) -> None:
        self._job, self._newest = job, newest

    def collect(self) -> Iterable[Metric]:
        """One series for each topic of the source."""
        copied = self._newest()
        if copied is None:
            return
        families: tuple[CounterMetricFamily | GaugeMetricFamily, ...] = (
            CounterMetricFamily("semel_copy_rows", "Rows copied since the job was started", labels=_LABELS),
            CounterMetricFamily(
                "semel_copy_bytes", "Bytes of the batches copied since the job was started", labels=_LABELS
            ),
            GaugeMetricFamily(
                "semel_copy_lag", "Offsets that the source has and that are not read", labels=_LABELS
            ),
            GaugeMetricFamily("semel_copy_partitions", "Partitions that are copied", labels=_LABELS),
        )
        for topic in copied.topics:
            numbers = (topic.rows, topic.size_bytes, topic.lag, topic.partitions)
            for family, number in zip(families, numbers, strict=True):
                family.add_metric([self._job, topic.topic], number)
        yield from families


def serve_metrics(address: str, job: str, newest: Callable[[], Copied | None]) -> Callable[[], None]:
    """Serve a copy's on ``host:port`` until what is returned is called."""
    return serve_collector(address, CopyCollector(job, newest))
