"""What lies in the logs of one sink, decoded once for all checkers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from semel.core.sink.journal import SINKS_TOPIC, Decision, JournalRecord, decode
from semel.sim.history import LoggedBatch
from semel.sim.sinks.story import Row, SinkStory, row_of
from semel.types import TopicPartition

_decode = lru_cache(4_096)(decode)
_row_of = lru_cache(16_384)(row_of)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row, and where it lies."""

    row: Row
    tp: TopicPartition
    record_offset: int
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        row = self.row
        name = f"row {row.number}{'x' if row.is_extra else ''} of {row.sink_id}/{row.source_partition}"
        version = f" in version {row.version}" if row.version else ""
        return (
            f"{name}{version} at offset {self.record_offset} of {self.tp} "
            f"(by {self.producer_id}/{self.producer_epoch})"
        )


class SinkView:
    """One sink's rows in its outputs, partition by partition, and its records in the decision log."""

    def __init__(self, story: SinkStory, logs: Mapping[TopicPartition, Sequence[LoggedBatch]]) -> None:
        self.story = story
        self._logs = logs

    @property
    def is_whole(self) -> bool:
        """Whether every log could be read; else nothing can be said to be missing."""
        return TopicPartition(SINKS_TOPIC, 0) in self._logs and all(
            tp in self._logs for tp in self.story.outputs
        )

    @cached_property
    def rows(self) -> list[StoredRow]:
        return list(self._stored())

    @cached_property
    def records(self) -> list[JournalRecord]:
        return [
            record
            for batch in self._logs.get(TopicPartition(SINKS_TOPIC, 0), ())
            for record in map(_decode, batch.values)
            if record.sink_id == self.story.sink_id
        ]

    @cached_property
    def decisions(self) -> list[Decision]:
        return [record for record in self.records if isinstance(record, Decision)]

    @property
    def decided_rows(self) -> Iterator[StoredRow]:
        """What the decisions speak of: neither rows that came later nor those that the last one left as a surplus."""
        if not self.decisions:
            return
        writers, ends = self.decisions[-1].writers, self.decisions[-1].output_ends
        surplus_from = {
            (state.producer_id, tp): output.surplus_from
            for state in writers.values()
            for tp, output in state.outputs.items()
            if output.surplus_from is not None
        }
        for stored in self.rows:
            place = (stored.producer_id, stored.tp)
            if stored.record_offset < min(ends.get(stored.tp, 0), surplus_from.get(place, sys.maxsize)):
                yield stored

    def _stored(self) -> Iterator[StoredRow]:
        for tp in self.story.outputs:
            for batch in self._logs.get(tp, ()):
                header = batch.header
                for place, value in enumerate(batch.values):
                    row = _row_of(value)
                    if row.sink_id == self.story.sink_id:
                        yield StoredRow(
                            row, tp, header.base_offset + place, header.producer_id, header.producer_epoch
                        )
