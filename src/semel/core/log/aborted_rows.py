"""Which batches of a log are of aborted transactions: looked up for many, in 24 bytes a transaction.

Each transaction of a producer ends before its next one begins, so that a batch lies in the last one, by its producer,
that begins at it or before, or in none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from semel.record.batch import BatchHeader

_ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)


class AbortedRows:
    """``entries``: of the segments' ``.txnindex``, as they lie in the files, in any order; some may be there twice."""

    def __init__(self, entries: bytes = b"") -> None:
        table = np.frombuffer(entries, _ENTRY)
        producer_id, first_offset = (table[name].astype(np.int64) for name in ("producer_id", "first_offset"))
        order = np.lexsort((first_offset, producer_id))
        self._producer_id: Final = producer_id[order]
        self._first_offset: Final = first_offset[order]
        self._last_offset: Final = table["last_offset"].astype(np.int64)[order]

    def has(self, header: BatchHeader) -> bool:
        """Whether the batch is of one of them."""
        if not len(self._producer_id) or not header.is_transactional or header.is_control:
            return False
        ids = self._producer_id
        start, end = (int(np.searchsorted(ids, header.producer_id, side)) for side in ("left", "right"))
        n = start + int(np.searchsorted(self._first_offset[start:end], header.base_offset, "right")) - 1
        return n >= start and bool(self._last_offset[n] >= header.base_offset)
