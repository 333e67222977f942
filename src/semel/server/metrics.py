"""``/metrics`` for Prometheus: kafka_exporter's names where it has one, ``semel_*`` for what is ours.

The page is made on the event loop from the live state at each scrape, so nothing is kept twice; Prometheus'
library is imported only when metrics are asked for. One scrape at a time is served a connection.

``/healthz`` beside it is for whoever restarts or routes: 200 while this process serves all of its partitions, 503
with the names of those that a failed disk or damage has taken offline, until a restart (the first of them).
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
from semel.core.producer_state.slot_index import PLACE_BYTES
from semel.server.counters import SYNC_SECONDS_BOUNDS
from semel.server.listener import Listener
from semel.server.storage.partition import Partition
from semel.types import LEASED_IDS_FROM
from semel.wire.api import ApiKey

_REQUEST_BYTES_MAX: Final = 8192
_REQUEST_S_MAX: Final = 5.0
_CONNECTIONS_MAX: Final = 16
_NAMED_MAX: Final = 10


class BrokerCollector:
    """Reads one server's state when Prometheus asks."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def collect(self) -> Iterable[Metric]:
        settings = self._listener.settings
        yield GaugeMetricFamily("kafka_brokers", "Number of brokers in the cluster", 1)
        info = GaugeMetricFamily("kafka_broker_info", "The brokers", labels=["id", "address"])
        info.add_metric([str(settings.broker_id), str(settings.advertised or self._listener.address)], 1)
        yield info
        yield from self._partitions()
        yield from self._groups()
        yield from self._transactions()
        yield from self._work()

    def _partitions(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        topic_partitions = GaugeMetricFamily(
            "kafka_topic_partitions", "Number of partitions of the topic", labels=["topic"]
        )
        current = GaugeMetricFamily(
            "kafka_topic_partition_current_offset", "Exclusive end of what may be read", labels=labels
        )
        stable = GaugeMetricFamily(
            "semel_partition_last_stable_offset",
            "Exclusive end of what readers of committed rows may read: no open transaction begins before it",
            labels=labels,
        )
        oldest = GaugeMetricFamily(
            "kafka_topic_partition_oldest_offset", "First offset that is still there", labels=labels
        )
        leader = GaugeMetricFamily("kafka_topic_partition_leader", "Leader's broker id", labels=labels)
        preferred = GaugeMetricFamily(
            "kafka_topic_partition_leader_is_preferred", "1: the only broker leads", labels=labels
        )
        replicas = GaugeMetricFamily("kafka_topic_partition_replicas", "Replicas: one", labels=labels)
        in_sync = GaugeMetricFamily(
            "kafka_topic_partition_in_sync_replica", "Replicas that can be written", labels=labels
        )
        under = GaugeMetricFamily(
            "kafka_topic_partition_under_replicated_partition", "1 after a failed disk", labels=labels
        )
        size = GaugeMetricFamily("semel_partition_size_bytes", "Bytes of the log", labels=labels)
        online = GaugeMetricFamily("semel_partition_online", "0 after a failed disk", labels=labels)
        storage = self._listener.broker.storage
        for topic in storage.topics:
            topic_partitions.add_metric([topic.name], topic.partition_count)
        for partition in storage:
            values = _labels(partition)
            current.add_metric(values, partition.high_watermark)
            stable.add_metric(values, partition.last_stable_offset)
            oldest.add_metric(values, partition.log_start_offset)
            leader.add_metric(values, self._listener.settings.broker_id)
            preferred.add_metric(values, 1)
            replicas.add_metric(values, 1)
            in_sync.add_metric(values, int(partition.is_online))
            under.add_metric(values, int(not partition.is_online))
            size.add_metric(values, partition.size_bytes)
            online.add_metric(values, int(partition.is_online))
        yield from (
            topic_partitions,
            current,
            stable,
            oldest,
            leader,
            preferred,
            replicas,
            in_sync,
            under,
            size,
            online,
        )

    def _groups(self) -> Iterator[Metric]:
        labels = ["consumergroup", "topic", "partition"]
        committed = GaugeMetricFamily(
            "kafka_consumergroup_current_offset", "The group's committed offset", labels=labels
        )
        lag = GaugeMetricFamily("kafka_consumergroup_lag", "Records behind it, to the end", labels=labels)
        storage = self._listener.broker.storage
        for (group_id, name), offset in storage.groups.records.committed():
            partition = storage.partition(*name)
            if partition is not None:
                values = [group_id, *_labels(partition)]
                committed.add_metric(values, offset.committed_offset)
                if offset.committed_offset < 0:  # no place, so that nothing is behind it
                    continue
                lag.add_metric(values, max(0, partition.high_watermark - offset.committed_offset))
        members = GaugeMetricFamily(
            "kafka_consumergroup_members", "Members of the group", labels=["consumergroup", "state"]
        )
        for group in storage.groups.membership:
            members.add_metric([group.group_id, group.state.value], len(group.members))
        yield from (committed, lag, members)

    def _transactions(self) -> Iterator[Metric]:
        counts = self._listener.broker.storage.transactions.count_by_state()
        named = GaugeMetricFamily(
            "semel_transactional_ids", "Transactional ids that are remembered", labels=["state"]
        )
        for state, count in counts.items():
            named.add_metric([state.title], count)
        yield named
        yield GaugeMetricFamily(
            "semel_transactions_open",
            "Transactions that are under way, or whose partitions have not all been marked yet",
            sum(count for state, count in counts.items() if not state.is_at_rest),
        )

    def _work(self) -> Iterator[Metric]:
        listener, counters = self._listener, self._listener.broker.counters
        verdicts = CounterMetricFamily(
            "semel_verdicts",
            "Verdicts on record batches and on markers, each of docs/verdicts.md",
            labels=["of", "verdict", "error"],
        )
        for labels, count in counters.verdict_series():
            verdicts.add_metric(labels, count)
        errors = CounterMetricFamily("semel_append_errors", "Batches and markers refused", labels=["error"])
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
        yield from self._slabs()
        ids = listener.broker.storage.producer_ids
        yield GaugeMetricFamily("semel_leases", "Leases of producer ids that live", len(ids.leases))
        yield GaugeMetricFamily(
            "semel_leases_expired_below",
            "Leases are over below this number, to which a leased id adds 2^62",
            ids.live_leases.expired_below - LEASED_IDS_FROM,
        )
        yield GaugeMetricFamily(
            "semel_producers_reserved",
            "Producers of partitions that leases have room kept for and have not used",
            ids.reserved,
        )
        yield GaugeMetricFamily(
            "semel_producers_free",
            "Producers of partitions for which there is room yet, of max.producers",
            ids.free,
        )
        yield CounterMetricFamily(
            "semel_leases_refused", "Leases refused for want of room", ids.leases_refused
        )
        yield GaugeMetricFamily(
            "semel_partitions_full",
            "Partitions whose last write was refused for want of room; they can be read",
            sum(one.no_room is not None for one in listener.broker.full),
        )
        free_bytes = listener.free_space.free_bytes
        if free_bytes is not None:
            yield GaugeMetricFamily(
                "semel_data_dir_free_bytes", "Free space of the data folder's file system", free_bytes
            )
        yield from self._cleaner()
        yield CounterMetricFamily("semel_fetched_bytes", "Bytes of records sent", counters.fetched_bytes)
        yield GaugeMetricFamily("semel_connections", "Open connections", len(listener.shell.connections))
        yield GaugeMetricFamily(
            "semel_connections_held",
            "Connections held for an offence before they close",
            len(listener.shell.offenders),
        )
        yield CounterMetricFamily(
            "semel_connections_refused", "Connections over the bound", counters.connections_refused
        )
        yield GaugeMetricFamily(
            "semel_held_bytes", "Bytes of requests and answers in memory", listener.shell.budget.held_bytes
        )
        totals = accumulate(counters.sync_buckets)
        names = [*map(str, SYNC_SECONDS_BOUNDS), "+Inf"]
        yield HistogramMetricFamily(
            "semel_fsync_seconds",
            "Duration of one shared sync of a partition",
            buckets=list(zip(names, totals, strict=True)),
            sum_value=counters.sync_seconds_sum,
        )

    def _cleaner(self) -> Iterator[Metric]:
        cleaner = self._listener.broker.storage.cleaner
        yield CounterMetricFamily("semel_cleaner_passes", "Logs compacted", cleaner.passes)
        yield CounterMetricFamily(
            "semel_cleaner_read_bytes", "Bytes of logs before they were compacted", cleaner.read_bytes
        )
        yield CounterMetricFamily(
            "semel_cleaner_written_bytes", "What was left of them", cleaner.written_bytes
        )
        yield CounterMetricFamily(
            "semel_cleaner_failures", "Logs that could not be compacted, each time", cleaner.failures
        )
        yield GaugeMetricFamily(
            "semel_partitions_uncleanable",
            "Damaged logs that are not compacted until a restart",
            len(cleaner.left_alone),
        )

    def _slabs(self) -> Iterator[Metric]:
        """The memory of what is remembered, all partitions together: of the bytes, and in rows of one producer."""
        all_bytes = [partition.slab_bytes for partition in self._listener.broker.storage]
        used, free = sum(one.used for one in all_bytes), sum(one.free for one in all_bytes)
        slab_bytes = GaugeMetricFamily(
            "semel_slab_bytes", "Memory of the rows of producers, used or there for more", labels=["state"]
        )
        slab_rows = GaugeMetricFamily(
            "semel_slab_rows", "Rows of producers that are used, or fit in besides", labels=["state"]
        )
        for state, size in (("used", used), ("free", free)):
            slab_bytes.add_metric([state], size)
            slab_rows.add_metric([state], size // PLACE_BYTES)
        yield from (slab_bytes, slab_rows)


async def start_metrics(address: Address, listener: Listener) -> asyncio.Server:
    """Serve ``GET /metrics`` and ``GET /healthz`` on ``address``."""
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
                writer.write(_respond(head, registry, listener))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, address.host, address.port, limit=_REQUEST_BYTES_MAX)


def _respond(head: bytes, registry: CollectorRegistry, listener: Listener) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method == b"GET" and path == b"/metrics":
        return _answer("200 OK", CONTENT_TYPE_PLAIN_0_0_4, generate_latest(registry))
    if method in (b"GET", b"HEAD") and path == b"/healthz":
        offline = [str(partition.name) for partition in listener.broker.storage if not partition.is_online]
        text = f"offline: {', '.join(offline[:_NAMED_MAX])}" if offline else "ok"
        if len(offline) > _NAMED_MAX:
            text += f" and {len(offline) - _NAMED_MAX} more"
        status = "503 Service Unavailable" if offline else "200 OK"
        return _answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), send_body=method == b"GET")
    return _answer("404 Not Found", "text/plain; charset=utf-8", b"")


def _answer(status: str, content_type: str, body: bytes, *, send_body: bool = True) -> bytes:
    start = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return start.encode() + (body if send_body else b"")


def _labels(partition: Partition) -> list[str]:
    return [partition.name.topic, str(partition.name.partition)]
