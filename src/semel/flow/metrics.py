"""``/metrics`` of a running flow for Prometheus: what its last look has said, for each stage.

A scrape asks the log nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from semel.flow.watch import Look
from semel.scrape import serve_collector

_LABELS: Final = ["flow", "stage"]


class FlowCollector(Collector):
    """Makes the page of the newest look; nothing before there is one."""

    def __init__(self, newest: Callable[[], Look | None]) -> None:
        self._newest = newest

    def collect(self) -> Iterable[Metric]:
        """One series for each stage."""
        look = self._newest()
        if look is None:
            return
        rows = CounterMetricFamily(
            "semel_flow_rows", "Rows decided since the flow was started", labels=_LABELS
        )
        bad = CounterMetricFamily(
            "semel_flow_bad_rows", "Rows that no step could take, since the flow was started", labels=_LABELS
        )
        late = CounterMetricFamily(
            "semel_flow_late_rows",
            "Rows that came after their window was closed, since the flow was started",
            labels=_LABELS,
        )
        batches = CounterMetricFamily(
            "semel_flow_micro_batches", "Micro-batches decided since the flow was started", labels=_LABELS
        )
        rate = GaugeMetricFamily(
            "semel_flow_rows_per_second", "Rows decided a second, lately", labels=_LABELS
        )
        lag = GaugeMetricFamily(
            "semel_flow_lag", "Offsets of the inputs that are not decided", labels=_LABELS
        )
        keys = GaugeMetricFamily("semel_flow_state_keys", "Keys of the decided state", labels=_LABELS)
        size = GaugeMetricFamily("semel_flow_state_bytes", "Bytes of the decided state", labels=_LABELS)
        in_changelog = GaugeMetricFamily(
            "semel_flow_state_in_changelog",
            "1: the state is in the changelog, 0: in the decisions",
            labels=_LABELS,
        )
        for stage in look.stages:
            labels = [look.flow, stage.stage]
            rows.add_metric(labels, stage.row_count)
            bad.add_metric(labels, stage.bad_count)
            late.add_metric(labels, stage.late_count)
            batches.add_metric(labels, stage.micro_batches)
            rate.add_metric(labels, stage.rows_per_s)
            lag.add_metric(labels, stage.lag)
            if stage.has_state:
                keys.add_metric(labels, stage.state_keys)
                size.add_metric(labels, stage.state_bytes)
                in_changelog.add_metric(labels, int(stage.is_in_changelog))
        yield from (rows, bad, late, batches, rate, lag, keys, size, in_changelog)


def serve_metrics(address: str, newest: Callable[[], Look | None]) -> Callable[[], None]:
    """Serve a flow's on ``host:port`` until what is returned is called."""
    return serve_collector(address, FlowCollector(newest))
