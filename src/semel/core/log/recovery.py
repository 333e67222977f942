"""Where to cut a log after an unclean stop.

Invariants:
- The log ends at its last whole batch: everything before the cut is a dense run of batches with right CRCs.
- Nothing below the recovery point is ever cut. What is found wrong there was once synced, so it is damage and
  not a torn tail, and the answer is to refuse the partition (:class:`Damaged`), not to shorten it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from semel.errors import CorruptRecordBatch
from semel.record.batch import HEADER_BYTES, BatchHeader, validate_batch

_PREFIX: Final = struct.Struct(">qi")  # base offset, length of what follows
_LENGTH_MIN: Final = HEADER_BYTES - _PREFIX.size


@dataclass(frozen=True, slots=True)
class Whole:
    """A good batch; the next one starts at ``position + header.size_bytes``."""

    header: BatchHeader


@dataclass(frozen=True, slots=True)
class NeedMore:
    """The buffer ends within a batch that may be good: show ``bytes_min`` from its start."""

    bytes_min: int


@dataclass(frozen=True, slots=True)
class Bad:
    """No batch can be here."""

    reason: str


def examine(
    buffer: memoryview, position: int, *, expected_offset: int, file_left_bytes: int
) -> Whole | NeedMore | Bad:
    """The batch at ``position`` of ``buffer``, from where ``file_left_bytes`` of the file are left."""
    shown = len(buffer) - position
    if shown < HEADER_BYTES:
        return Bad("torn header") if file_left_bytes < HEADER_BYTES else NeedMore(HEADER_BYTES)
    base_offset, length = _PREFIX.unpack_from(buffer, position)
    if base_offset == 0 and length == 0:
        return Bad("zeroed")
    if length < _LENGTH_MIN:
        return Bad(f"impossible length {length}")
    if base_offset != expected_offset:
        return Bad(f"offset {base_offset} where {expected_offset} is due")
    size_bytes = _PREFIX.size + length
    if size_bytes > file_left_bytes:
        return Bad("torn batch")
    if size_bytes > shown:
        return NeedMore(size_bytes)
    try:
        header = validate_batch(buffer[position : position + size_bytes])
    except CorruptRecordBatch as error:
        return Bad(str(error))
    return Whole(header)


@dataclass(frozen=True, slots=True)
class Sound:
    """The log ends where its files end."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The tail from ``offset`` on is cut: it was never acknowledged as durable."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A batch that was synced is not readable any more."""

    offset: int
    reason: str


def decide_cut(bad: Bad | None, *, at_offset: int, recovery_point: int) -> Sound | Cut | Damaged:
    """What a scan that ended at ``at_offset`` means, when all below ``recovery_point`` was synced once."""
    if at_offset < recovery_point:
        reason = bad.reason if bad is not None else "the file ends"
        return Damaged(at_offset, f"{reason}, below offset {recovery_point} that was synced")
    return Sound() if bad is None else Cut(at_offset, bad.reason)
