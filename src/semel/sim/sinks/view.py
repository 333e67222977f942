"""What lies in the logs of one sink, decoded once for all checkers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import (
    SINKS_TOPIC,
    Begin,
    Decision,
    Fence,
    JournalRecord,
    OutputClaim,
    WriterClaim,
    decode,
)
from semel.sim.sinks.story import Row, SinkStory, row_of
from semel.sim.world.history import LoggedBatch
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.driver import SimulatedDriver

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
    sequence: int
    left_by: str = ""  # a sink that was given up for another had not decided it: it comes a second time

    def __str__(self) -> str:
        row = self.row
        name = f"row {row.number}{'x' if row.is_extra else ''} of {row.sink_id}/{row.source_partition}"
        version = f" in version {row.version}" if row.version else ""
        return (
            f"{name}{version} at offset {self.record_offset} of {self.tp} "
            f"(by {self.producer_id}/{self.producer_epoch})"
        )


class SinkView:
    """One sink's rows in its outputs, partition by partition, and its records in the decision log.

    ``trimmed`` is what lay below the logs' starts: such rows count like all others.
    """

    def __init__(
        self,
        story: SinkStory,
        logs: Mapping[TopicPartition, Sequence[LoggedBatch]],
        trimmed: Mapping[TopicPartition, Mapping[int, LoggedBatch]],
    ) -> None:
        self.story = story
        self._logs = logs
        self._trimmed = trimmed

    @property
    def is_whole(self) -> bool:
        """Whether every log could be read; else nothing can be said to be missing."""
        return TopicPartition(SINKS_TOPIC, 0) in self._logs and all(
            tp in self._logs for tp in self.story.outputs
        )

    @cached_property
    def rows(self) -> list[StoredRow]:
        return [stored for stored in self._stored if not stored.left_by]

    @cached_property
    def rows_left(self) -> list[StoredRow]:
        """Those that the sinks left which were given up."""
        return [stored for stored in self._stored if stored.left_by]

    @cached_property
    def journal(self) -> list[tuple[int, JournalRecord]]:
        """The sink's records in the decision log, with their offsets."""
        return [
            (record_offset, record)
            for batch in self._logs.get(TopicPartition(SINKS_TOPIC, 0), ())
            for record_offset, value in batch.placed
            if value and (record := _decode(value)).sink_id in self.story.sink_ids  # no tombstone
        ]

    @cached_property
    def records(self) -> list[JournalRecord]:
        """Those that count: not what a driver appended that had lost the sink."""
        histories = {sink_id: SinkHistory(sink_id) for sink_id in self.story.sink_ids}
        return [record for _, record in self.journal if histories[record.sink_id].apply(record)]

    @cached_property
    def decisions(self) -> list[Decision]:
        return [record for record in self.records if isinstance(record, Decision)]

    def numbers_decided(self, decision: Decision) -> dict[TopicPartition, int]:
        """Up to which row each source partition is decided."""
        return {
            tp: self.story.number_of(decision.source_ids.get(tp.topic), tp, end)
            for tp, end in decision.source_ends.items()
        }

    @property
    def decided_rows(self) -> Iterator[StoredRow]:
        """What the decisions speak of: neither rows that came later nor those that the last one left as a surplus."""
        last = {decision.sink_id: decision for decision in self.decisions}
        # By the writer's name: what it left as a surplus may be of a producer id that it had before.
        surplus_from = {
            (sink_id, writer, tp): output.surplus_from
            for sink_id, decision in last.items()
            for writer, state in decision.writers.items()
            for tp, output in state.outputs.items()
            if output.surplus_from is not None
        }
        for stored in self.rows:
            sink_id, writer = self._writers.get(stored.producer_id, ("", ""))
            decision = last.get(sink_id)
            end = 0 if decision is None else decision.output_ends.get(stored.tp, 0)
            if stored.record_offset < min(end, surplus_from.get((sink_id, writer, stored.tp), sys.maxsize)):
                yield stored

    def needed_by(self, driver: SimulatedDriver) -> dict[TopicPartition, int]:
        """Where the last run of ``driver`` had to begin its scan of each output, by what the log had for it to read."""
        records = [record for record in self.records if record.sink_id == driver.checkpoint.sink_id]
        sink_epoch = max(
            (
                record.sink_epoch
                for record in records
                if isinstance(record, Fence) and record.owner.startswith(f"{driver.name}.")
            ),
            default=-1,
        )
        needed: dict[TopicPartition, int] = {}
        surplus: dict[TopicPartition, int] = {}
        for record in records:
            if record.sink_epoch > sink_epoch:
                continue
            match record:
                case Begin():
                    needed |= record.scanned_from
                case OutputClaim():
                    needed = dict(record.starts) | needed
                case Decision():
                    needed |= record.output_ends
                    surplus = {}
                    for state in record.writers.values():
                        for tp, output in state.outputs.items():
                            if output.surplus_from is not None:
                                surplus[tp] = min(output.surplus_from, surplus.get(tp, sys.maxsize))
        return {tp: min(start, surplus.get(tp, sys.maxsize)) for tp, start in needed.items()}

    @cached_property
    def _writers(self) -> dict[int, tuple[str, str]]:
        """By producer id: the sink under whose name it was claimed, and for which of its writers."""
        return {
            record.producer_id: (record.sink_id, record.writer)
            for record in self.records
            if isinstance(record, WriterClaim)
        }

    @cached_property
    def _stored(self) -> list[StoredRow]:
        # The decision log alone tells under which name a row was written.
        has_names = len(self.story.sink_ids) == 1 or TopicPartition(SINKS_TOPIC, 0) in self._logs
        current = self.story.sink_ids[-1]
        ends = {
            (decision.sink_id, tp.partition): end
            for decision in self.decisions
            for tp, end in self.numbers_decided(decision).items()
        }
        found = []
        for tp in self.story.outputs:
            for batch in self._batches_of(tp):
                header = batch.header
                unknown = current if has_names else f"whoever had producer id {header.producer_id}"
                sink_id, _ = self._writers.get(header.producer_id, (unknown, ""))
                for place, value in enumerate(batch.values):
                    row = _row_of(value)
                    if row.sink_id != self.story.sink_id:
                        continue
                    is_left = sink_id != current and row.number >= ends.get(
                        (sink_id, row.source_partition), 0
                    )
                    found.append(
                        StoredRow(
                            row,
                            tp,
                            header.base_offset + place,
                            header.producer_id,
                            header.producer_epoch,
                            header.base_sequence + place,
                            sink_id if is_left else "",
                        )
                    )
        return found

    def _batches_of(self, tp: TopicPartition) -> list[LoggedBatch]:
        """All that ever were in the partition's log, in order; none where it cannot be read."""
        if tp not in self._logs:
            return []
        start = min((batch.header.base_offset for batch in self._logs[tp]), default=sys.maxsize)
        gone = sorted(item for item in self._trimmed.get(tp, {}).items() if item[0] < start)
        return [*(batch for _, batch in gone), *self._logs[tp]]
