"""The producers of one moment, looked up one by one without an object for each."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.row import ROW_BYTES, decode_row, id_of

_REMEMBERED_MAX: Final = 1024


class SortedRows:
    """``rows`` are in the order of their ids, as :meth:`FrozenProducers.in_order` gives them."""

    def __init__(self, rows: memoryview) -> None:
        self._rows: Final = rows
        self._count: Final = len(rows) // ROW_BYTES
        self._asked: dict[int, ProducerEntry | None] = {}  # a log has runs of batches of the same few

    def __contains__(self, producer_id: int) -> bool:
        return self.get(producer_id) is not None

    def get(self, producer_id: int) -> ProducerEntry | None:
        if producer_id in self._asked:
            return self._asked[producer_id]
        if len(self._asked) == _REMEMBERED_MAX:
            self._asked.clear()
        entry = self._asked[producer_id] = self._find(producer_id)
        return entry

    def _find(self, producer_id: int) -> ProducerEntry | None:
        n = bisect_left(range(self._count), producer_id, key=lambda n: id_of(self._rows, n * ROW_BYTES))
        at = n * ROW_BYTES
        found = n < self._count and id_of(self._rows, at) == producer_id
        return decode_row(self._rows, at) if found else None
