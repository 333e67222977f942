"""How large rows are, by a small look at some: an entry is bounded in bytes too, for a stage holds all of its rows.

A list of offsets tells nothing of bytes. So where much is to be recorded, the rows that come next in each topic are
looked at, by one fetch for all topics, and where those are small, the rows at which the entry would end by that: rows
grow, when a topic begins with a few of another kind. The larger mean holds until much is to be recorded again. A wrong
one costs memory and never correctness: the cuts are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
            seen = self._look(cluster, {tp: largest[key][2] for key, tp in unsure.items()}, unsure)
            self._mean_bytes |= {tp.topic: mean for tp, (mean, _) in seen.items()}
            fit = self._fit(largest, rows_max)
            lasts = {key: first + min(rows, fit) - 1 for key, (rows, _, first) in largest.items()}
            far = {key: tp for key, tp in unsure.items() if tp in seen and seen[tp][1] < lasts[key]}
            if far:
                there = self._look(cluster, {tp: lasts[key] for key, tp in far.items()}, far)
                for tp, (mean, _) in there.items():
                    self._mean_bytes[tp.topic] = max(mean, self._mean_bytes[tp.topic])
        return self._fit(largest, rows_max)

    def _fit(self, topics: Iterable[InputTopic], rows_max: int) -> int:
        return rows_that_fit([self._mean_bytes.get(key.topic, UNKNOWN_ROW_BYTES) for key in topics], rows_max)

    @staticmethod
    def _look(
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        keys: Mapping[InputTopic, TopicPartition],
    ) -> dict[TopicPartition, tuple[float, int]]:
        """The mean bytes of a row from there on, and the last offset that was seen."""
        fetched = cluster.fetch(
            positions,
            max_wait_ms=0,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=_LOOK_BYTES_MAX,
            topic_ids={key.topic: UUID(key.topic_id) for key in keys},
        )
        found: dict[TopicPartition, tuple[float, int]] = {}
        for tp, answer in fetched.items():
            if answer.error_code is ErrorCode.NONE:
                with suppress(CorruptRecordBatch):  # whoever is to read it will say so
                    mean, last = _mean_bytes(answer.records)
                    if mean is not None:
                        found[tp] = mean, last
        return found


def _mean_bytes(records: Buffer) -> tuple[float | None, int]:
    """Of a row of these batches, unpacked; of one that is cut off, as its header says. ``None``: nothing is there.

    And the last offset of them.
    """
    size_bytes, count, last = 0, 0, -1
    for batch, header in scan_batches(records, allow_partial_tail=True):
        last = header.last_offset
        if not header.is_control:
            size_bytes += len(payload_of(batch, header))
            count += header.record_count
    if not count and len(records) >= HEADER_BYTES:
        header = decode_header(records)
        size_bytes, count, last = header.size_bytes, header.record_count, header.last_offset
    return (size_bytes / count if count else None), last
