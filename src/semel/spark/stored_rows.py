"""Reading the output back: the rows of given writers, for the scan, for twins and for a surplus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from semel.client.blocking import Cluster
from semel.core.sink.run import gone
from semel.errors import DataLoss
from semel.record.batch import BatchHeader
from semel.record.columnar import decode_table
from semel.sequence import distance
from semel.spark.output import Rows
from semel.spark.reading import Batch, read_range
from semel.spark.refusing import allow
from semel.types import NO_SEQUENCE, ProducerGrant, TopicPartition


def stored_rows(
    cluster: Cluster, sink_id: str, output: TopicPartition, from_offsets: Mapping[int, int], end_offset: int
) -> Iterator[tuple[int, Rows, Any]]:
    """(producer id, rows, their offsets), in log order, from each producer's own offset on.

    Batches of other producers are passed over without being unpacked. Raises ``ReplayUnprovable`` when the output is
    trimmed meanwhile.
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
                    for name in ("key", "value", "headers", "offset")
                }
                rows = Rows(columns["key"], columns["value"], columns["headers"], None)
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


def leader_knows(cluster: Cluster, output: TopicPartition, batch: BatchHeader) -> bool:
    """Apache Kafka says "out of order" to a duplicate that is older than the batches it remembers."""
    return any(
        known.producer_epoch == batch.producer_epoch
        and known.last_sequence != NO_SEQUENCE
        and distance(batch.last_sequence, known.last_sequence) <= 0
        for known in cluster.describe_producers([output])[output]
        if known.producer_id == batch.producer_id
    )


def _all_of(
    cluster: Cluster, sink_id: str, output: TopicPartition, start: int, end_offset: int
) -> Iterator[list[Batch]]:
    try:
        yield from read_range(cluster, output, start, end_offset, isolation="read_uncommitted")
    except DataLoss as lost:
        allow(gone(sink_id, output, lost.lost_from, lost.lost_to_end))
