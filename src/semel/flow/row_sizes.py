"""How large rows are, by a small look at some: an entry is bounded in bytes too, for a stage holds all of its rows.

A list of offsets tells nothing of bytes. So where much is to be recorded, the rows that come next in each topic are
looked at, by one fetch for all topics, and what was seen holds until much is to be recorded again. A wrong mean costs
memory and never correctness: the cuts are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from uuid import UUID

from semel.client.blocking import Cluster
from semel.core.flow.merge_plan import ENTRY_BYTES_MAX, ENTRY_ROWS_MAX, rows_that_fit
from semel.core.flow.merge_records import InputTopic
from semel.errors import CorruptRecordBatch, ErrorCode
from semel.record.batch import HEADER_BYTES, decode_header, payload_of, scan_batches
from semel.types import TopicPartition
from semel.wire.frames import Buffer

UNKNOWN_ROW_BYTES: Final = 2048  # of a topic where nothing could be seen
_LOOK_BYTES_MAX: Final = 64 * 1024  # of a topic; the first may answer with a whole batch that is larger
_FETCH_BYTES_MAX: Final = 16 * 2**20
_TIMES_LARGER: Final = 4  # than at the last look, so that a small plan may go without one


class RowSizes:
    """What is known of the inputs of one merge log."""

    def __init__(self) -> None:
        self._mean_bytes: dict[str, float] = {}

    def rows_max(
        self,
        cluster: Cluster,
        waiting: Mapping[tuple[InputTopic, int], tuple[int, int]],
        rows_max: int = ENTRY_ROWS_MAX,
    ) -> int:
        """How many rows an entry may have. ``waiting``: by input and partition, what is to be recorded of it."""
        largest: dict[InputTopic, tuple[int, int, int]] = {}  # rows, partition, from
        for (key, number), (first, end) in waiting.items():
            largest[key] = max(largest.get(key, (0, 0, 0)), (min(end - first, rows_max), number, first))
        unsure = {
            key: TopicPartition(key.topic, number)
            for key, (rows, number, _) in largest.items()
            if rows * self._mean_bytes.get(key.topic, ENTRY_BYTES_MAX) * _TIMES_LARGER > ENTRY_BYTES_MAX
        }
        if unsure:
            self._look(cluster, {tp: largest[key][2] for key, tp in unsure.items()}, unsure)
        means = [self._mean_bytes.get(key.topic, UNKNOWN_ROW_BYTES) for key in largest]
        return rows_that_fit(means, rows_max)

    def _look(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        keys: Mapping[InputTopic, TopicPartition],
    ) -> None:
        fetched = cluster.fetch(
            positions,
            max_wait_ms=0,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=_LOOK_BYTES_MAX,
            topic_ids={key.topic: UUID(key.topic_id) for key in keys},
        )
        for tp, answer in fetched.items():
            if answer.error_code is ErrorCode.NONE:
                with suppress(CorruptRecordBatch):  # whoever is to read it will say so
                    seen = _mean_bytes(answer.records)
                    if seen is not None:
                        self._mean_bytes[tp.topic] = seen


def _mean_bytes(records: Buffer) -> float | None:
    """Of a row of these batches, unpacked; of one that is cut off, as its header says. ``None``: nothing is there."""
    size_bytes = count = 0
    for batch, header in scan_batches(records, allow_partial_tail=True):
        if not header.is_control:
            size_bytes += len(payload_of(batch, header))
            count += header.record_count
    if not count and len(records) >= HEADER_BYTES:
        header = decode_header(records)
        size_bytes, count = header.size_bytes, header.record_count
    return size_bytes / count if count else None
