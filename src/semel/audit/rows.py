"""An index of rows: what the checks need to know of each record, and nothing of its content.

Held per row: identity (16 bytes), order key (8), partition (4), offset (8), whether it has a sequence (1) = 37
bytes; the checks need about as much again per row while they run. ``rows_max`` bounds it.

Invariant: rows stand in the order in which each partition holds them; :meth:`RowIndex.sorted` puts
partitions one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.audit.identity import IDENTITY_BYTES, digest
from semel.errors import SemelError

BYTES_PER_ROW: Final = IDENTITY_BYTES + 8 + 4 + 8 + 1
ROWS_MAX_DEFAULT: Final = 50_000_000
_NO_ORDER: Final = bytes(8)


class TooManyRows(SemelError):
    """The topic holds more rows than the audit was allowed to keep in memory."""


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Rows as columns. ``order_key`` 0 means that no order was promised (a null key)."""

    identities: pa.Array  # fixed_size_binary[16]
    order_key: NDArray[np.uint64]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    sequenced: NDArray[np.bool_]  # its producer said which one it is: equal rows are told apart by it

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(slots=True)
class RowIndexBuilder:
    """Collects rows chunk by chunk; closed chunks are packed."""

    topic: str
    rows_max: int = ROWS_MAX_DEFAULT
    _identities: list[bytes] = field(default_factory=list)
    _order_keys: list[bytes] = field(default_factory=list)
    _partitions: list[NDArray[np.int32]] = field(default_factory=list)
    _offsets: list[NDArray[np.int64]] = field(default_factory=list)
    _sequenced: list[NDArray[np.bool_]] = field(default_factory=list)
    _row_count: int = 0

    def add(
        self,
        partition: int,
        offsets: NDArray[np.int64],
        identities: list[bytes],
        order_texts: list[bytes | None],
        *,
        sequenced: bool = True,
    ) -> None:
        """Take one chunk of a partition: digests of identities, and what each row is ordered by."""
        self._row_count += len(offsets)
        if self._row_count > self.rows_max:
            raise TooManyRows(
                f"topic {self.topic!r} has more than {self.rows_max} rows, which need "
                f"{self.rows_max * BYTES_PER_ROW // 2**20} MiB: raise --rows-max if the memory is there"
            )
        self._identities.append(b"".join(identities))
        self._order_keys.append(b"".join([_NO_ORDER if t is None else digest(t, 8) for t in order_texts]))
        self._partitions.append(np.full(len(offsets), partition, dtype=np.int32))
        self._offsets.append(np.asarray(offsets, dtype=np.int64))
        self._sequenced.append(np.full(len(offsets), sequenced, dtype=np.bool_))

    def build(self) -> RowIndex:
        """All rows, partition by partition in offset order."""
        partition = np.concatenate([np.empty(0, np.int32), *self._partitions])
        offset = np.concatenate([np.empty(0, np.int64), *self._offsets])
        sequenced = np.concatenate([np.empty(0, np.bool_), *self._sequenced])
        order_key = np.frombuffer(b"".join(self._order_keys), dtype=np.uint64)
        identities = fixed_binary(b"".join(self._identities))
        order = np.lexsort((offset, partition))
        return RowIndex(
            identities.take(pa.array(order)),
            order_key[order],
            partition[order],
            offset[order],
            sequenced[order],
        )


def fixed_binary(digests: bytes) -> pa.Array:
    """Concatenated digests as an Arrow column, without a copy."""
    count = len(digests) // IDENTITY_BYTES
    return pa.Array.from_buffers(pa.binary(IDENTITY_BYTES), count, [None, pa.py_buffer(digests)])
