"""The map producer id -> row of one partition: rows in slabs, which a snapshot may hold on to.

Invariants:
- Rows are dense: slots 0 to ``len - 1``, in slabs of 4096. A new row goes behind the last; where one is removed,
  the last takes its place. So memory follows the number of ids, up and down, and no free slots are kept.
- A slab that a snapshot holds never changes: whoever would write into it puts a copy in its place. Freezing
  costs a list of references, whatever the number of ids, and each slab is copied at most once for it.

One thread uses the map; frozen slabs are for any thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from semel.core.producer_state.row import ROW_BYTES, Row, id_of, new_row
from semel.core.producer_state.slot_index import NO_SLOT, SLAB_ROWS, SLAB_SHIFT, SlotIndex
from semel.types import LEASED_IDS_FROM, is_leased

Place: TypeAlias = tuple[bytearray, int, int]  # a slab, where in it a row begins, and the row's slot

SLAB_BYTES: Final = SLAB_ROWS * ROW_BYTES
_IN_SLAB: Final = SLAB_ROWS - 1
_RECENT_MAX: Final = 128
_LEASED_FROM_BYTE: Final = LEASED_IDS_FROM >> 56


class SlabMap:
    """Rows by producer id, each with the time of its last append."""

    __slots__ = (
        "_index",
        "_is_shared",
        "_last_append_ms",
        "_recent",
        "_slabs",
    )

    def __init__(self) -> None:
        self._slabs: list[bytearray] = []  # all of them full but the last
        self._is_shared = bytearray()  # by slab: whether a snapshot may hold it
        self._last_append_ms = array("q")  # by slot
        self._index = SlotIndex(self._slabs)
        self._recent: dict[int, Place] = {}  # a few of those that were asked for; the index takes longer

    @classmethod
    def load(cls, rows: memoryview, now_ms: int) -> SlabMap:
        """The map of ``rows``, no two of which have the same id."""
        made = cls()
        made._slabs += [bytearray(rows[at : at + SLAB_BYTES]) for at in range(0, len(rows), SLAB_BYTES)]
        made._is_shared = bytearray(len(made._slabs))
        made._last_append_ms = array("q", [now_ms]) * (len(rows) // ROW_BYTES)
        made._index.fill(len(made))
        return made

    def __len__(self) -> int:
        return len(self._last_append_ms)

    def __iter__(self) -> Iterator[Row]:
        """Every row, in the order of slots."""
        return rows_in(self._slabs)

    def find(self, producer_id: int) -> Place | None:
        """Where the id's row lies, to be read before anything else is done with the map."""
        place = self._recent.get(producer_id)
        if place is not None:
            return place
        slot = self._index.find(producer_id)
        return None if slot == NO_SLOT else self._remember(producer_id, slot)

    def touch(self, producer_id: int, now_ms: int) -> Place | None:
        """Likewise, but to be written, for an append."""
        place = self.find(producer_id)
        if place is None:
            return None
        slot = place[2]
        self._last_append_ms[slot] = now_ms
        if not self._is_shared[slot >> SLAB_SHIFT]:
            return place
        self._own(slot >> SLAB_SHIFT)
        return self._remember(producer_id, slot)

    def add(self, producer_id: int, now_ms: int) -> Place:
        """A new row, to be written, for an id that is not known."""
        slot = self._append(new_row(producer_id), now_ms)
        self._index.add(producer_id, slot)
        return self._remember(producer_id, slot)

    def put_back(self, producer_id: int, row: Row) -> None:
        """An earlier row of an id that is known; the time of its last append stays."""
        slot = self._index.find(producer_id)
        self._write(slot, row)

    def remove(self, producer_id: int) -> None:
        """Forget an id, if it is known."""
        slot = self._index.find(producer_id)
        if slot != NO_SLOT:
            self._remove(producer_id, slot)

    def leased_ids(self) -> Iterator[int]:
        """A look at each row's first byte tells: leased ids are those from 2^62 on."""
        for slab in self._slabs:
            for n, first_byte in enumerate(slab[::ROW_BYTES]):
                if first_byte >= _LEASED_FROM_BYTE:
                    yield id_of(slab, n * ROW_BYTES)

    def sweep(self, before_ms: int, leases_expired_below: int, from_slot: int, to_slot: int) -> int:
        """Forget, in these slots, leased ids below that number, and others last appended before ``before_ms``.

        How many it were.
        """
        times = self._last_append_ms
        swept = 0
        for slot in range(min(to_slot, len(times)) - 1, from_slot - 1, -1):
            producer_id = id_of(self._slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * ROW_BYTES)
            is_over = (
                producer_id < leases_expired_below if is_leased(producer_id) else times[slot] < before_ms
            )
            if is_over:
                self._remove(producer_id, slot)
                swept += 1
        return swept

    def freeze(self) -> tuple[Row, ...]:
        """All rows as they are now, in slabs that stay as they are."""
        self._is_shared = bytearray(b"\1") * len(self._slabs)
        return tuple(self._slabs)

    def _remember(self, producer_id: int, slot: int) -> Place:
        if len(self._recent) == _RECENT_MAX:
            self._recent.clear()
        place = self._slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * ROW_BYTES, slot
        self._recent[producer_id] = place
        return place

    def _row(self, slot: int) -> Row:
        at = (slot & _IN_SLAB) * ROW_BYTES
        return self._slabs[slot >> SLAB_SHIFT][at : at + ROW_BYTES]

    def _write(self, slot: int, row: Row) -> None:
        at = (slot & _IN_SLAB) * ROW_BYTES
        self._own(slot >> SLAB_SHIFT)[at : at + ROW_BYTES] = row

    def _own(self, number: int) -> bytearray:
        """The slab, to write into."""
        if self._is_shared[number]:
            self._slabs[number] = self._slabs[number][:]
            self._is_shared[number] = 0
            self._recent.clear()
        return self._slabs[number]

    def _append(self, row: Row, now_ms: int) -> int:
        slot = len(self._last_append_ms)
        number = slot >> SLAB_SHIFT
        if number == len(self._slabs):
            self._slabs.append(bytearray())
            self._is_shared.append(0)
        slab = self._own(number)
        slab += row
        if len(slab) == SLAB_BYTES:
            self._slabs[number] = slab[:]  # without the room that it had to grow
            self._recent.clear()
        self._last_append_ms.append(now_ms)
        return slot

    def _remove(self, producer_id: int, slot: int) -> None:
        last_slot = len(self._last_append_ms) - 1
        self._index.remove(producer_id, slot)
        if slot != last_slot:
            row = self._row(last_slot)
            self._index.move(id_of(row), last_slot, slot)
            self._write(slot, row)
            self._last_append_ms[slot] = self._last_append_ms[last_slot]
        self._last_append_ms.pop()
        slab = self._own(last_slot >> SLAB_SHIFT)
        del slab[-ROW_BYTES:]
        if not slab:
            self._slabs.pop()
            self._is_shared.pop()
        if not self._slabs:
            self._index = SlotIndex(self._slabs)
        self._recent.clear()


def rows_in(slabs: Iterable[Row]) -> Iterator[Row]:
    """The rows of some slabs, one after the other."""
    return (slab[at : at + ROW_BYTES] for slab in slabs for at in range(0, len(slab), ROW_BYTES))


def count_rows(slabs: Sequence[Row]) -> int:
    return sum(map(len, slabs)) // ROW_BYTES
