"""Reading the output back: the rows of given writers, for the scan, for twins and for a surplus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from semel.client.blocking import Cluster
from semel.core.sink.run import gone
from semel.errors import BrokerError, DataLoss, ErrorCode
from semel.record.batch import BatchHeader, TimestampType
from semel.record.columnar import decode_table
from semel.sequence import distance
from semel.spark.output import Rows
from semel.spark.process import this_process
from semel.spark.reading import Batch, headers_in, read_range
from semel.spark.refusing import allow
from semel.spark.sink_log import APPEND_TIMEOUT_MS, RETRY_PAUSE_MS
from semel.types import LATEST_TIMESTAMP, NO_SEQUENCE, ProducerGrant, TopicPartition

# No record's: those are whole milliseconds.
NO_TIME: Final = pa.scalar(-(2**63), pa.timestamp("us", "UTC"))


def stored_rows(
    cluster: Cluster, sink_id: str, output: TopicPartition, from_offsets: Mapping[int, int], end_offset: int
) -> Iterator[tuple[int, Rows, Any]]:
    """(producer id, rows, their offsets), in log order, from each producer's own offset on.

    Times are null where the log has set them, and :data:`NO_TIME` where a column cannot hold them. Batches of other
    producers are passed over without being unpacked. Raises ``ReplayUnprovable`` when the output is trimmed meanwhile.
    """
    start = min(from_offsets.values(), default=end_offset)
    for batches in _all_of(cluster, sink_id, output, start, end_offset):
        ours = [
            (header.producer_id, batch)
            for batch, header in batches
            if header.producer_id in from_offsets and not header.is_control
        ]
        for producer_id, group in groupby(ours, key=lambda entry: entry[0]):
            table = decode_table(
                (batch for _, batch in group),
                topic=output.topic,
                partition=output.partition,
                from_offset=from_offsets[producer_id],
                end_offset=end_offset,
                include_headers=True,
            ).combine_chunks()
            if table.num_rows:
                columns = {
                    name: table.column(name).combine_chunks()
                    for name in ("key", "value", "headers", "offset", "timestamp", "timestampType")
                }
                is_own = pc.equal(columns["timestampType"], TimestampType.CREATE_TIME.value)
                times = pc.if_else(is_own, columns["timestamp"].fill_null(NO_TIME), None)
                rows = Rows(columns["key"], columns["value"], columns["headers"], times)
                yield producer_id, rows, columns["offset"]


def stored_batches(
    cluster: Cluster, sink_id: str, output: TopicPartition, writer: ProducerGrant, start: int, end_offset: int
) -> dict[int, int]:
    """Where ``writer``'s batches are, by their first sequences."""
    return {
        header.base_sequence: header.base_offset
        for batches in _all_of(cluster, sink_id, output, start, end_offset)
        for _, header in batches
        if ProducerGrant(header.producer_id, header.producer_epoch) == writer and not header.is_control
    }


class OlderDuplicates:
    """Which batches are stored, of those to which Apache Kafka says "out of order": it remembers the newest five only.

    Its leader tells of them, and may lose them yet. So they are looked for in the log: what can be read is committed,
    whichever leader shows it. What was read once is not read again.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[
            tuple[TopicPartition, ProducerGrant], tuple[int, int]
        ] = {}  # behind it, and up to there

    def has(self, output: TopicPartition, batch: BatchHeader, start: int) -> bool:
        """Whether ``batch`` is; at or behind ``start``, if at all. A ``BrokerError`` while nobody can tell."""
        if not self._is_told_of(output, batch):
            return False
        clock = this_process().clock
        deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
        while not (self._cluster.tells_committed_only or self._is_seen(output, batch, start)):
            if clock.elapsed_ms() > deadline_ms:
                raise BrokerError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"writing to {output}",
                    "its leader tells of these rows, and they cannot be read: it may lose them yet. Start it again",
                )
            clock.pause(RETRY_PAUSE_MS)
            self._cluster.look_elsewhere([output.topic])
        return True

    def _is_told_of(self, output: TopicPartition, batch: BatchHeader) -> bool:
        return any(
            known.producer_epoch == batch.producer_epoch
            and known.last_sequence != NO_SEQUENCE
            and distance(batch.last_sequence, known.last_sequence) <= 0
            for known in self._cluster.describe_producers([output])[output]
            if known.producer_id == batch.producer_id
        )

    def _is_seen(self, output: TopicPartition, batch: BatchHeader, start: int) -> bool:
        writer = ProducerGrant(batch.producer_id, batch.producer_epoch)
        offset, last_sequence = self._seen.get((output, writer), (start, NO_SEQUENCE))
        if not _reaches(last_sequence, batch):
            end = self._cluster.list_offsets({output: LATEST_TIMESTAMP}, "read_uncommitted")[output].offset
            for header in headers_in(self._cluster, output, offset, end):
                offset = header.last_offset + 1
                whose = ProducerGrant(header.producer_id, header.producer_epoch)
                if whose == writer and not header.is_control:
                    last_sequence = header.last_sequence
            self._seen[output, writer] = offset, last_sequence
        return _reaches(last_sequence, batch)


def _reaches(last_sequence: int, batch: BatchHeader) -> bool:
    return last_sequence != NO_SEQUENCE and distance(last_sequence, batch.last_sequence) >= 0


def _all_of(
    cluster: Cluster, sink_id: str, output: TopicPartition, start: int, end_offset: int
) -> Iterator[list[Batch]]:
    try:
        yield from read_range(cluster, output, start, end_offset, isolation="read_uncommitted")
    except DataLoss as lost:
        allow(gone(sink_id, output, lost.lost_from, lost.lost_to_end))
