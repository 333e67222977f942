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
