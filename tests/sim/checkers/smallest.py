"""The smallest logs, and what was promised of their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.record.batch import CONTROL_BIT, BatchHeader
from semel.sim.server.reference import LeasesKnown, PartitionLedger
from semel.sim.world.history import History, LoggedBatch, Promise
from semel.types import LEASED_IDS_FROM, TopicPartition

TP, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)
LEASE = LEASED_IDS_FROM
WRITER = 7  # the producer id of whatever does not say another


def header(
    base_offset: int,
    records: int = 1,
    *,
    by: int = WRITER,
    epoch: int = 0,
    sequence: int = 0,
    control: bool = False,
) -> BatchHeader:
    attributes = CONTROL_BIT if control else 0
    return BatchHeader(
        base_offset,
        49,
        0,
        2,
        0,
        attributes,
        records - 1,
        0,
        0,
        by,
        epoch,
        -1 if control else sequence,
        records,
    )


def batch(base_offset: int, *values: str, **who: int) -> LoggedBatch:
    return LoggedBatch(header(base_offset, len(values), **who), tuple(value.encode() for value in values))


def marker(base_offset: int, **who: int) -> LoggedBatch:
    """What a fence leaves in the log."""
    return LoggedBatch(header(base_offset, control=True, **who), ())


def ledger(*batches: LoggedBatch, leases_over_below: int = LEASE) -> PartitionLedger:
    """The second opinion on a log of these."""
    known = PartitionLedger(LeasesKnown(leases_over_below))
    for one in batches:
        known.appended(one.header, one.header.base_offset)
    return known


def history(
    promises: Mapping[str, Promise] | Sequence[str] = (), *, tp: TopicPartition = TP, log_start: int = 0
) -> History:
    """Who was told what of these values; :attr:`Promise.OPEN` where nothing is said."""
    told = promises if isinstance(promises, Mapping) else dict.fromkeys(promises, Promise.OPEN)
    made = History(log_starts={tp: log_start})
    for value, promise in told.items():
        made.sent(value.encode(), tp).promise = promise
    return made


class Compacted:
    """Of a log in which a value's key is what stands in front of its ``/``; ``x`` marks tombstones."""

    def __init__(self, *, keeps_tombstones: bool = False) -> None:
        self.keeps_tombstones = keeps_tombstones

    def key_of(self, value: bytes) -> bytes:
        return value.split(b"/")[0]

    def is_tombstone(self, value: bytes) -> bool:
        return value.startswith(b"x", len(self.key_of(value)) + 1)


def keyed(base_offset: int, *values: str, at: Sequence[int] | None = None, **who: int) -> LoggedBatch:
    """A batch whose records have keys; ``at``: the offsets that are left, of as many as the last one says."""
    texts = tuple(value.encode() for value in values)
    records = len(values) if at is None else at[-1] - base_offset + 1
    keys = tuple(map(Compacted().key_of, texts))
    return LoggedBatch(header(base_offset, records, **who), texts, keys, None if at is None else tuple(at))
