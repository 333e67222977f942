"""``/metrics`` for Prometheus: kafka_exporter's names where it has one, ``semel_*`` for what is ours.

The page is made on the event loop from the live state at each scrape, so nothing is kept twice; Prometheus'
library is imported only when metrics are asked for. One scrape at a time is served a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from semel.config import Address
from semel.server.counters import SYNC_SECONDS_BOUNDS
from semel.server.listener import Listener
from semel.server.storage.partition import Partition
from semel.wire.api import ApiKey

_REQUEST_BYTES_MAX: Final = 8192
_REQUEST_S_MAX: Final = 5.0
_CONNECTIONS_MAX: Final = 16


class BrokerCollector:
    """Reads one server's state when Prometheus asks."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("kafka_brokers", "Number of brokers in the cluster", 1)
        yield from self._partitions()
        yield from self._work()

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        topic_partitions = GaugeMetricFamily(
            "kafka_topic_partitions", "Number of partitions of the topic", labels=["topic"]
        )
        current = GaugeMetricFamily(
            "kafka_topic_partition_current_offset", "Exclusive end of what may be read", labels=labels
        )
        oldest = GaugeMetricFamily(
            "kafka_topic_partition_oldest_offset", "First offset that is still there", labels=labels
        )
        leader = GaugeMetricFamily("kafka_topic_partition_leader", "Leader's broker id", labels=labels)
        size = GaugeMetricFamily("semel_partition_size_bytes", "Bytes of the log", labels=labels)
        online = GaugeMetricFamily("semel_partition_online", "0 after a failed disk", labels=labels)
        storage = self._listener.broker.storage
        for topic in storage.topics:
            topic_partitions.add_metric([topic.name], topic.partition_count)
        for partition in storage:
            values = _labels(partition)
            current.add_metric(values, partition.high_watermark)
            oldest.add_metric(values, partition.log_start_offset)
            leader.add_metric(values, self._listener.settings.broker_id)
            size.add_metric(values, partition.size_bytes)
            online.add_metric(values, int(partition.is_online))
        yield from (topic_partitions, current, oldest, leader, size, online)

    def _work(self) -> Iterator[Metric]:
        listener, counters = self._listener, self._listener.broker.counters
        verdicts = CounterMetricFamily("semel_verdicts", "Verdicts on record batches", labels=["verdict"])
        for verdict, count in counters.verdicts.items():
            verdicts.add_metric([verdict], count)
        errors = CounterMetricFamily("semel_append_errors", "Batches refused", labels=["error"])
        for error, count in counters.errors.items():
            errors.add_metric([error], count)
        requests = CounterMetricFamily("semel_requests", "Requests handled", labels=["api", "version"])
        for (api_key, version), count in counters.requests.items():
            requests.add_metric([ApiKey(api_key).name, str(version)], count)
        yield from (verdicts, errors, requests)
        yield GaugeMetricFamily(
            "semel_known_producers",
            "Producers of partitions remembered",
            listener.broker.storage.producer_count,
        )
        yield CounterMetricFamily("semel_fetched_bytes", "Bytes of records sent", counters.fetched_bytes)
        yield GaugeMetricFamily("semel_connections", "Open connections", len(listener.connections))
        yield CounterMetricFamily(
            "semel_connections_refused", "Connections over the bound", counters.connections_refused
        )
        yield GaugeMetricFamily(
            "semel_held_bytes", "Bytes of requests and answers in memory", listener.budget.held_bytes
        )
        totals = accumulate(counters.sync_buckets)
        names = [*map(str, SYNC_SECONDS_BOUNDS), "+Inf"]
        yield HistogramMetricFamily(
            "semel_fsync_seconds",
            "Duration of one shared round of fdatasync",
            buckets=list(zip(names, totals, strict=True)),
            sum_value=counters.sync_seconds_sum,
        )


async def start_metrics(address: Address, listener: Listener) -> asyncio.Server:
    """Serve ``GET /metrics`` on ``address``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(listener))

    open_now = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        if open_now >= _CONNECTIONS_MAX:
            writer.close()
            return
        open_now += 1
        try:
            await answer(reader, writer)
        finally:
            open_now -= 1

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(head, registry))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, address.host, address.port, limit=_REQUEST_BYTES_MAX)


def _respond(head: bytes, registry: CollectorRegistry) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method != b"GET" or path != b"/metrics":
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    body = generate_latest(registry)
    start = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE_PLAIN_0_0_4}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return start.encode() + body


def _labels(partition: Partition) -> list[str]:
    return [partition.name.topic, str(partition.name.partition)]
