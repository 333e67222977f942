"""Are the producers' sequences whole? Decided over raw batch headers, in the order of the log; pure.

Per partition and producer id, the batches of one epoch must follow each other without a gap and without an
overlap (KIP-98), a new epoch starts at 0, and epochs never fall. Offsets of one partition are dense. A log
whose head was deleted says nothing about what came before: the first batch of a producer is then taken as
it is. In a compacted log holes are wanted, in offsets and in sequences; only repetitions count.

Bounded: one small entry per partition and producer id (``producers_max``), the first findings only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from semel.errors import SemelError
from semel.record.batch import BatchHeader
from semel.sequence import advance, distance
from semel.types import NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

PRODUCERS_MAX_DEFAULT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SequenceFinding:
    """One batch that does not continue its producer: ``check`` says how, the numbers are the evidence."""

    check: str  # sequence_gap | sequence_repeated | epoch_fell | offset_gap
    partition: TopicPartition
    base_offset: int
    producer_id: int
    producer_epoch: int
    expected: int
    found: int

    def __str__(self) -> str:
        where = f"{self.partition} offset {self.base_offset}"
        who = f"producer {self.producer_id} epoch {self.producer_epoch}"
        match self.check:
            case "offset_gap":
                return f"{where}: offset {self.expected} was to come next"
            case "epoch_fell":
                return (
                    f"{where}: producer {self.producer_id} wrote in epoch {self.found} after {self.expected}"
                )
            case "sequence_repeated":
                return f"{where}: {who}: sequence {self.found} once more, where {self.expected} was to come"
            case _:
                return f"{where}: {who}: sequence {self.found} where {self.expected} was to come"


@dataclass(frozen=True, slots=True)
class SequenceVerdict:
    """What the headers prove."""

    batches: int
    records: int
    control_batches: int
    producers: int  # distinct (partition, producer id)
    epochs: int  # distinct (partition, producer id, epoch)
    unsequenced_records: int  # written by producers without an id: nothing can be proven of those
    finding_count: int
    findings: tuple[SequenceFinding, ...]


@dataclass(slots=True)
class _Writer:
    producer_epoch: int
    next_sequence: int  # NO_SEQUENCE: whatever comes, for what came before is gone


@dataclass(slots=True)
class SequenceCheck:
    """Feed every batch header of every partition in log order; then ask for the verdict."""

    examples_max: int = 10
    producers_max: int = PRODUCERS_MAX_DEFAULT
    _writers: dict[tuple[TopicPartition, int], _Writer] = field(default_factory=dict)
    _next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    _headless: set[TopicPartition] = field(default_factory=set)
    _compacted: set[TopicPartition] = field(default_factory=set)
    _findings: list[SequenceFinding] = field(default_factory=list)
    _finding_count: int = 0
    _batches: int = 0
    _records: int = 0
    _control_batches: int = 0
    _unsequenced_records: int = 0
    _epochs: int = 0

    def begin(self, partition: TopicPartition, *, log_start_offset: int, compacted: bool = False) -> None:
        """Say where a partition's log starts, before its first batch."""
        if log_start_offset > 0:
            self._headless.add(partition)
        if compacted:
            self._compacted.add(partition)
        else:
            self._next_offset[partition] = log_start_offset

    def feed(self, partition: TopicPartition, header: BatchHeader) -> None:
        """Judge the next batch of ``partition``."""
        self._batches += 1
        self._check_offset(partition, header)
        if header.is_control:
            self._control_batches += 1
            self._raise_epoch(partition, header)
            return
        self._records += header.record_count
        if header.producer_id == NO_PRODUCER_ID or header.base_sequence == NO_SEQUENCE:
            self._unsequenced_records += header.record_count
            return
        writer = self._raise_epoch(partition, header)
        expected = writer.next_sequence
        if expected != NO_SEQUENCE and header.base_sequence != expected:
            ahead = distance(header.base_sequence, expected) > 0
            if not (ahead and partition in self._compacted):
                self._find("sequence_gap" if ahead else "sequence_repeated", partition, header, expected)
        if expected == NO_SEQUENCE or distance(header.last_sequence, expected) >= 0:
            writer.next_sequence = advance(header.last_sequence, 1)

    def verdict(self) -> SequenceVerdict:
        """What was found in all that was fed."""
        return SequenceVerdict(
            batches=self._batches,
            records=self._records,
            control_batches=self._control_batches,
            producers=len(self._writers),
            epochs=self._epochs,
            unsequenced_records=self._unsequenced_records,
            finding_count=self._finding_count,
            findings=tuple(self._findings),
        )

    def _check_offset(self, partition: TopicPartition, header: BatchHeader) -> None:
        expected = self._next_offset.get(partition)
        if expected is None:
            return
        # A log start in mid-batch is normal after DeleteRecords: only what lies beyond it must be dense.
        if header.base_offset > expected:
            self._find("offset_gap", partition, header, expected)
        self._next_offset[partition] = header.last_offset + 1

    def _raise_epoch(self, partition: TopicPartition, header: BatchHeader) -> _Writer:
        key = (partition, header.producer_id)
        writer = self._writers.get(key)
        if writer is None:
            if len(self._writers) >= self.producers_max:
                raise SemelError(f"more than {self.producers_max} producers: raise --producers-max")
            first = NO_SEQUENCE if partition in self._headless else 0
            writer = self._writers[key] = _Writer(header.producer_epoch, first)
            self._epochs += 1
        elif header.producer_epoch > writer.producer_epoch:
            writer.producer_epoch, writer.next_sequence = header.producer_epoch, 0
            self._epochs += 1
        elif header.producer_epoch < writer.producer_epoch:
            self._find("epoch_fell", partition, header, writer.producer_epoch, header.producer_epoch)
        return writer

    def _find(
        self,
        check: str,
        partition: TopicPartition,
        header: BatchHeader,
        expected: int,
        found: int | None = None,
    ) -> None:
        self._finding_count += 1
        if len(self._findings) < self.examples_max:
            self._findings.append(
                SequenceFinding(
                    check,
                    partition,
                    header.base_offset,
                    header.producer_id,
                    header.producer_epoch,
                    expected,
                    header.base_sequence if found is None else found,
                )
            )
