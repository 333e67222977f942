"""A second opinion on every verdict, written to be obviously right and not to be fast.

It shares no code with ``core.producer_state``. It keeps every batch ever appended, and counts sequences
without wrapping them: a sequence on the wire stands for the unwrapped position nearest to the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.record.batch import BatchHeader
from semel.types import LEASED_IDS_FROM, NO_PRODUCER_ID, NO_SEQUENCE

SEQUENCES = 2**31
REMEMBERED_BATCHES = 5
NEVER_LEASED_FROM = LEASED_IDS_FROM + (1 << 40)


@dataclass(frozen=True, slots=True)
class Span:
    """One stored batch, in wire sequences and in offsets."""

    base_sequence: int
    record_count: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Expected:
    """The right answer, by the name of the verdict; ``base_offset`` where an answer owes it."""

    verdict: str
    base_offset: int | None = None


@dataclass(slots=True)
class _Writer:
    producer_epoch: int
    spans: list[Span]  # of the current epoch, all of them


@dataclass(slots=True)
class LeasesKnown:
    """What somebody was told of leases: all below are over. Of any that live, whoever has one was told too."""

    expired_below: int = LEASED_IDS_FROM

    def verdict(self, producer_id: int) -> str | None:
        if LEASED_IDS_FROM <= producer_id < self.expired_below:
            return "LeaseExpired"
        return "UnknownProducer" if producer_id >= NEVER_LEASED_FROM else None


class PartitionLedger:
    """Everything that ever was in one partition's log, by producer id: what is trimmed is not forgotten."""

    def __init__(self, leases: LeasesKnown) -> None:
        self.leases = leases
        self._batches: list[tuple[BatchHeader, int]] = []
        self._writers: dict[int, _Writer] = {}

    def recovered(self, found: Sequence[BatchHeader], end_offset: int) -> PartitionLedger:
        """The ledger of a log in which, after a restart, only ``found`` was left, up to ``end_offset``."""
        start_offset = found[0].base_offset if found else end_offset
        ledger = PartitionLedger(self.leases)
        for header, base_offset in self._batches:
            if base_offset < start_offset:
                ledger.appended(header, base_offset)
        for header in found:
            ledger.appended(header, header.base_offset)
        return ledger

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        self._batches.append((header, base_offset))
        if header.producer_id == NO_PRODUCER_ID:
            return
        writer = self._writers.get(header.producer_id)
        if writer is None or writer.producer_epoch != header.producer_epoch:
            writer = self._writers[header.producer_id] = _Writer(header.producer_epoch, [])
        if not header.is_control:
            writer.spans.append(Span(header.base_sequence, header.last_offset_delta + 1, base_offset))

    def expected(self, header: BatchHeader) -> Expected:
        writer = self._writers.get(header.producer_id)
        if header.producer_id == NO_PRODUCER_ID:
            return Expected("Append")
        bad_lease = self.leases.verdict(header.producer_id)
        if bad_lease is not None:
            return Expected(bad_lease)
        if writer is None:
            return Expected("Append" if header.base_sequence == 0 else "UnknownProducer")
        if header.producer_epoch < writer.producer_epoch:
            return Expected("InvalidProducerEpoch")
        if header.producer_epoch > writer.producer_epoch or not writer.spans:
            return Expected("Append" if header.base_sequence == 0 else "OutOfOrderSequence")
        last = writer.spans[-1]
        next_position = last.base_sequence + last.record_count + SEQUENCES  # room for what lies before
        ahead = (header.base_sequence - next_position) % SEQUENCES
        first = next_position + (ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES)
        end = first + header.last_offset_delta + 1
        if first == next_position:
            return Expected("Append")
        if first > next_position:
            return Expected("OutOfOrderSequence")
        if end > next_position:
            return Expected("Straddling")
        for span in writer.spans[-REMEMBERED_BATCHES:]:
            if span.base_sequence == header.base_sequence and span.record_count == end - first:
                return Expected("Duplicate", span.base_offset)
        return Expected("Duplicate")

    def expected_of_marker(self, header: BatchHeader) -> Expected:
        writer = self._writers.get(header.producer_id)
        bad_lease = self.leases.verdict(header.producer_id)
        if bad_lease is not None:  # what is over as a whole is fenced
            return Expected("Duplicate" if bad_lease == "LeaseExpired" else bad_lease)
        if writer is None or header.producer_epoch > writer.producer_epoch:
            return Expected("Append")
        return Expected(
            "Duplicate" if header.producer_epoch == writer.producer_epoch else "InvalidProducerEpoch"
        )

    def remembered(self) -> dict[int, tuple[int, int, tuple[tuple[int, int], ...]]]:
        """For each producer id that is judged by it: its epoch, its last sequence, and its last five batches as
        (first sequence, offset)."""
        result = {}
        for producer_id, writer in self._writers.items():
            if self.leases.verdict(producer_id) is not None:
                continue
            spans = writer.spans[-REMEMBERED_BATCHES:]
            last = spans[-1] if spans else None
            last_sequence = (
                NO_SEQUENCE if last is None else (last.base_sequence + last.record_count - 1) % SEQUENCES
            )
            window = tuple((span.base_sequence, span.base_offset) for span in spans)
            result[producer_id] = (writer.producer_epoch, last_sequence, window)
        return result
