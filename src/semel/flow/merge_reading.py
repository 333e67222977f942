"""Reading a merge log: the planners' records of ranges, of all partitions by one fetch where that is enough."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final
from uuid import UUID

from semel.client.blocking import Cluster
from semel.core.flow.merge_records import MergeRecord, read_record
from semel.errors import CorruptRecordBatch, DataLoss, ErrorCode, ReplayUnprovable
from semel.record.batch import decode_records, scan_batches
from semel.spark.reading import Batch, read_range
from semel.types import TopicPartition
from semel.wording import counted

_FETCH_BYTES_MAX: Final = 32 * 2**20
_PARTITION_FETCH_BYTES_MAX: Final = 8 * 2**20
_LOG: Final = logging.getLogger("semel.flow")

Placed = tuple[int, MergeRecord]


def read_records(
    cluster: Cluster, topic: str, topic_id: str, ranges: Mapping[int, tuple[int, int]]
) -> dict[int, list[Placed]]:
    """The records from one offset to another (exclusive), by partition."""
    records: dict[int, list[Placed]] = {number: [] for number in ranges}
    positions = {
        TopicPartition(topic, number): first for number, (first, end) in ranges.items() if first < end
    }
    if len(positions) > 1:
        fetched = cluster.fetch(
            positions,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=_PARTITION_FETCH_BYTES_MAX,
            topic_ids={topic: UUID(topic_id)},
        )
        for tp, answer in fetched.items():
            # Whatever is not plain is left to who knows how to go on.
            if answer.error_code is ErrorCode.NONE and not answer.aborted:
                with suppress(CorruptRecordBatch):
                    batches = list(scan_batches(answer.records, allow_partial_tail=True))
                    records[tp.partition] += _decoded(tp, batches, *ranges[tp.partition])
                    if batches:
                        positions[tp] = batches[-1][1].last_offset + 1
    for tp, position in positions.items():
        end = ranges[tp.partition][1]
        try:
            for batches in read_range(cluster, tp, position, end, topic_id=topic_id):
                records[tp.partition] += _decoded(tp, batches, position, end)
        except DataLoss as lost:
            why = "they were trimmed, or the topic was made anew"
            raise order_lost(tp, lost.lost_from, lost.lost_to_end, why) from lost
    return records


def _decoded(tp: TopicPartition, batches: Iterable[Batch], first: int, end: int) -> list[Placed]:
    found: list[Placed] = []
    foreign: list[int] = []
    for batch, header in batches:
        for record in [] if header.is_control else decode_records(batch):
            if not first <= record.offset < end:
                continue
            try:
                read = read_record(record.value)
            except ValueError as error:
                raise ReplayUnprovable(
                    f"the record at {tp}@{record.offset} cannot be read: {error}. Nothing was recorded behind it. "
                    f"Where a newer semel has written it, use that one; else put the topic back from a copy"
                ) from None
            if read is None:
                foreign.append(record.offset)
            else:
                found.append((record.offset, read))
    if foreign:
        _LOG.warning(
            "%s holds %s of no planner, the first at offset %d: passed over. "
            "Nobody but the flow should write there",
            tp,
            counted(len(foreign), "record"),
            foreign[0],
        )
    return found


def order_lost(tp: TopicPartition, lost_from: int, lost_end: int, why: str) -> DataLoss:
    """The error where what a merge log had recorded is gone."""
    return DataLoss(
        tp,
        lost_from,
        max(lost_end, lost_from),
        f"{why}. They are the recorded order of the stage's inputs, and without it nothing can be read again as it "
        f"was. Put the topic back from a copy, or run the flow under another name, into new topics",
    )


def no_planned_end(tp: TopicPartition, offset: int) -> ReplayUnprovable:
    """The error where a micro-batch is said to have ended where none can have."""
    return ReplayUnprovable(
        f"no entry ends at offset {offset} of {tp}, so that no micro-batch ended there: it is an offset of another "
        f"merge log, or of another topic"
    )
