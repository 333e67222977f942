"""Which of the fetched batches a consumer may see: no control batch, no record of an aborted transaction.

Follows Kafka's ``CompletedFetch``: the answer names, for each aborted transaction that overlaps it, the
producer and the first offset; from there to that producer's abort marker its transactional batches are
skipped. ``next_offset`` moves over everything that was looked at, so that control batches and compacted
ranges are never asked for twice.

Offsets lie outside of a batch's CRC: one that is damaged is seen where the next batch does not lie behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from semel.errors import CorruptRecordBatch
from semel.record.batch import scan_batches
from semel.record.control import decode_marker
from semel.types import NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True)
class Visible:
    """The batches to show, whole: the first may begin before ``from_offset``."""

    batches: tuple[memoryview, ...]
    next_offset: int
    leader_epoch: int = NO_LEADER_EPOCH  # under which the last batch that was looked at was written


def visible_batches(records: memoryview, from_offset: int, aborted: Iterable[tuple[int, int]]) -> Visible:
    """``aborted`` as a read_committed answer gives it: (producer id, first offset)."""
    pending = sorted(aborted, key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    shown = []
    next_offset = from_offset
    leader_epoch = NO_LEADER_EPOCH
    before = -1
    for batch, header in scan_batches(records, allow_partial_tail=True):
        if header.base_offset <= before:
            raise CorruptRecordBatch(f"offset {header.base_offset} after {before}")
        before = header.last_offset
        while pending and pending[0][1] <= header.last_offset:
            aborting.add(pending.pop(0)[0])
        if header.last_offset < from_offset:
            continue
        next_offset = header.last_offset + 1
        leader_epoch = header.partition_leader_epoch
        if header.is_control:
            if decode_marker(batch) is not None:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            shown.append(batch)
    return Visible(tuple(shown), next_offset, leader_epoch)
