"""Whether a log still has the batch that was read of it last: one that was put back from an older copy has another.

Such a log may have grown beyond that offset since, in batches of other sizes, so its end alone proves nothing.
"""

from __future__ import annotations

from semel.record.batch import BatchHeader


def is_another(there: BatchHeader, last_offset: int, crc: int) -> bool:
    """``there`` is the first batch that the log gives at ``last_offset``, where one with this CRC ended.

    Compaction takes rows out of a batch, or notes when its tombstones may go (then its CRC says nothing), and leaves
    its ends; or the batch goes, and the next one lies behind the offset.
    """
    if there.base_offset > last_offset:
        return False
    is_as_written = there.is_dense and not there.has_delete_horizon
    return there.last_offset != last_offset or (is_as_written and there.crc != crc)
