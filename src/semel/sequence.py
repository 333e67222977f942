"""Sequence arithmetic: the one place that knows how a producer's sequence wraps.

A sequence counts records of one producer epoch on one partition, from 0 to 2^31-1, then 0 again
(KIP-98; Kafka's ``DefaultRecordBatch.incrementSequence``). Order is therefore a matter of distance,
never of magnitude: after the wrap the next sequence is the smaller number.
"""

from __future__ import annotations

from typing import Final

SEQUENCE_MODULUS: Final = 2**31
SEQUENCE_MAX: Final = SEQUENCE_MODULUS - 1
COMPARABLE_MAX: Final = SEQUENCE_MODULUS // 2  # records apart, from which on nobody can say which is newer


def advance(sequence: int, records: int) -> int:
    """The sequence ``records`` after ``sequence``."""
    return (sequence + records) % SEQUENCE_MODULUS


def last_of(base_sequence: int, record_count: int) -> int:
    """The last sequence (inclusive) of a batch of ``record_count`` >= 1 records."""
    return (base_sequence + record_count - 1) % SEQUENCE_MODULUS


def distance(newer: int, older: int) -> int:
    """How many records ``newer`` is ahead of ``older``; negative when it lies behind.

    In [-2^30, 2^30): exact as long as the two are less than 2^30 records apart.
    """
    steps = (newer - older) % SEQUENCE_MODULUS
    return steps - SEQUENCE_MODULUS if steps >= COMPARABLE_MAX else steps
