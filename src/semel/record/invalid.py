"""Which records of a batch a log does not take, by number (Kafka's ``LogValidator.validateRecord``).

Memory: 8 bytes a record, what :mod:`semel.record.index` says of a block, and ``RECORDS_NAMED_MAX`` of them with a text.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np

from semel.record.batch import BatchHeader
from semel.record.index import key_blocks, walk
from semel.record.records import RecordRules
from semel.types import NO_TIMESTAMP, RecordError

RECORDS_NAMED_MAX: Final = 10_000  # the others are refused with them, and named when they come again
_NO_KEY: Final = "a record without a key: the topic is compacted (cleanup.policy), by key"


class InvalidRecords(NamedTuple):
    """How many there are, the first of them, and whether any of all has a wrong time."""

    how_many: int
    errors: tuple[RecordError, ...]
    has_wrong_timestamp: bool


def invalid_records(payload: bytes, header: BatchHeader, rules: RecordRules) -> InvalidRecords | None:
    """``None`` when there are none; :class:`CorruptRecordBatch` if the records are not what their header says."""
    positions: array[int] = array("q")
    walk(payload, 0, len(payload), header.record_count, positions)
    bounds = np.append(np.frombuffer(positions, np.int64), len(payload))
    how_many, has_wrong_timestamp = 0, False
    errors: list[RecordError] = []
    first = 0
    for block in key_blocks(np.frombuffer(payload, np.uint8), bounds):
        lacks_key = block.key_length < 0 if rules.needs_key else np.zeros(len(block.key_length), bool)
        times_ms = block.timestamp_delta + np.int64(header.base_timestamp)  # wraps, as for a reader
        is_out = (times_ms < rules.timestamp_ms_min) | (times_ms > rules.timestamp_ms_max)
        is_mistimed = is_out & (times_ms != NO_TIMESTAMP) & ~lacks_key
        has_wrong_timestamp |= bool(is_mistimed.any())
        (found,) = np.nonzero(lacks_key | is_mistimed)
        how_many += len(found)
        for index in found[: RECORDS_NAMED_MAX - len(errors)].tolist():
            why = _NO_KEY if lacks_key[index] else _out_of_range(int(times_ms[index]), rules)
            errors.append(RecordError(first + index, why))
        first += len(lacks_key)
    return InvalidRecords(how_many, tuple(errors), has_wrong_timestamp) if how_many else None


def _out_of_range(timestamp_ms: int, rules: RecordRules) -> str:
    return f"its time of {timestamp_ms} ms is not within {rules.timestamp_ms_min} to {rules.timestamp_ms_max}"
