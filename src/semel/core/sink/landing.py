"""An answer proves where it is: what "stored" means, by the offset that comes with it.

A log that is handed a batch whose sequences it knows answers as if it had stored it: DUPLICATE_SEQUENCE_NUMBER, or, as
Apache Kafka does while it remembers the batch, NONE with the offset of the first copy
(``ProducerStateEntry.findDuplicateBatch``). So the code alone tells an append from a duplicate only where the
sequences cannot have been used before; the offset always does.
"""

from __future__ import annotations

from enum import Enum

from semel.errors import ErrorCode


class Landing(Enum):
    """What became of a batch that was answered "stored"."""

    APPENDED = "appended"
    DUPLICATE = "duplicate"  # it, or another batch with its sequences, was there before
    ELSEWHERE = "elsewhere"  # what is stored is of another time: this batch is not


def landed(code: ErrorCode, base_offset: int, begun_at: int, written_to: int) -> Landing:
    """Whatever may be meant stands at or after ``begun_at``, and what the writer surely appended below ``written_to``.

    All are offsets; ``base_offset`` is -1 where the answer gives none.
    """
    if 0 <= base_offset < begun_at:
        return Landing.ELSEWHERE
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER or base_offset < written_to:
        return Landing.DUPLICATE
    return Landing.APPENDED
