"""The map producer id -> row of one partition: rows in slabs, which a snapshot may hold on to.

Invariants:
- Rows are dense: slots 0 to ``len - 1``, in slabs of 4096. A new row goes behind the last; where one is removed,
  the last takes its place. So memory follows the number of ids, up and down, and no free slots are kept.
- Behind each row stands the time of its last append (int64, big-endian). It is no part of the row, but what an
  append needs lies together: among a million rows every other place that is looked at is one more wait for memory.
- A slab that a snapshot holds never changes: whoever would write into it puts a copy in its place. Freezing
  costs a list of references, whatever the number of ids, and each slab is copied at most once for it.

One thread uses the map; frozen slabs are for any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from semel.core.producer_state.entry import NO_TRANSACTION, WINDOW_BATCHES_MAX
from semel.core.producer_state.row import (
    CHANGING,
    CHANGING_AT,
    MARK,
    OLDEST_AT,
    ROW_BYTES,
    TXN_FIRST_OFFSET_AT,
    WINDOW_AT,
    Row,
    id_of,
    new_row,
    txn_first_offset_of,
)
from semel.core.producer_state.slot_index import (
    FEW_ROWS,
    GONE,
    NO_SLOT,
    PLACE_BYTES,
    SLAB_ROWS,
    SLAB_SHIFT,
    Place,
    SlotIndex,
    key_of,
)
from semel.record.batch import TRANSACTIONAL_BIT, BatchHeader
from semel.types import LEASED_IDS_FROM, is_leased

SLAB_BYTES: Final = SLAB_ROWS * PLACE_BYTES
_IN_SLAB: Final = SLAB_ROWS - 1
_TIME: Final = struct.Struct(">q")
_CHANGING_AND_TIME: Final = struct.Struct(f"{CHANGING.format}{_TIME.format.lstrip('>')}")
_LEASED_FROM_BYTE: Final = LEASED_IDS_FROM >> 56
_NONE_BYTE: Final = NO_TRANSACTION & 0xFF  # with which no offset begins

_mark_at = MARK.unpack_from
_put_changing_and_time = _CHANGING_AND_TIME.pack_into


class SlabBytes(NamedTuple):
    """Memory of slabs: what rows take, and what is there for the next ones."""

    used: int
    free: int


class SlabMap:
    """Rows by producer id, each with the time of its last append."""

    __slots__ = ("_index", "_is_shared", "_slabs")

    def __init__(self) -> None:
        self._slabs: list[bytearray] = []  # all of them full but the last
        self._is_shared = bytearray()  # by slab: whether a snapshot may hold it
        self._index = SlotIndex(self._slabs)

    @classmethod
    def load(cls, rows: memoryview, now_ms: int) -> SlabMap:
        """The map of ``rows``, no two of which have the same id."""
        made = cls()
        step = SLAB_ROWS * ROW_BYTES
        made._slabs += [_slab_of(rows[at : at + step], now_ms) for at in range(0, len(rows), step)]
        made._is_shared = bytearray(len(made._slabs))
        made._index.fill(len(made))
        return made

    def __len__(self) -> int:
        slabs = self._slabs
        return (len(slabs) - 1) * SLAB_ROWS + len(slabs[-1]) // PLACE_BYTES if slabs else 0

    def __iter__(self) -> Iterator[Row]:
        """Every row, in the order of slots."""
        return rows_in(self._slabs)

    @property
    def slab_bytes(self) -> SlabBytes:
        """Without what snapshots hold on to."""
        used = len(self) * PLACE_BYTES
        return SlabBytes(used, sum(slab.__alloc__() for slab in self._slabs) - used)

    def find(self, producer_id: int) -> Place | None:
        """Where the id's row lies, to be read before anything else is done with the map."""
        return self._index.find(producer_id)

    def append_next(self, header: BatchHeader, base_offset: int, now_ms: int) -> Row | None:
        """An append, if the batch plainly follows its producer's newest one: of one epoch, with the next sequence,
        and in a transaction if one is open, else in none.

        Gives the row as it was before; or ``None``: nothing has changed, and somebody else judges. As nearly every
        batch comes here, it is looked for, judged and written in one function and with one look at the row.
        """
        producer_id = header.producer_id
        hashed = hash(key_of(producer_id))
        index = self._index
        cells = index.directory[hashed & index.mask].cells
        cell = hashed % len(cells) - len(cells)  # as in :meth:`SlotIndex.find`
        while (slot := cells[cell]) != NO_SLOT:
            cell += 1
            if slot == GONE:
                continue
            number = slot >> SLAB_SHIFT
            slab, at = self._slabs[number], (slot & _IN_SLAB) * PLACE_BYTES
            (
                found_id,
                txn_first_offset,
                coordinator_epoch,
                producer_epoch,
                batches,
                newest_sequence,
                newest_delta,
            ) = _mark_at(slab, at)
            if found_id != producer_id:
                continue
            base_sequence = header.base_sequence
            is_next = base_sequence == newest_sequence + newest_delta + 1  # but for where sequences wrap
            if not is_next or not batches or header.producer_epoch != producer_epoch:
                return None
            if (txn_first_offset == NO_TRANSACTION) is (header.attributes & TRANSACTIONAL_BIT != 0):
                return None
            if self._is_shared[number]:
                slab = self._own(number)
            before = slab[at : at + ROW_BYTES]
            _put_changing_and_time(
                slab,
                at + CHANGING_AT,
                header.max_timestamp,
                coordinator_epoch,
                producer_epoch,
                batches + 1 if batches < WINDOW_BATCHES_MAX else batches,
                base_offset,
                base_sequence,
                header.last_offset_delta,
                before[WINDOW_AT:OLDEST_AT],
                now_ms,
            )
            return before
        return None

    def touch(self, producer_id: int, now_ms: int) -> Place | None:
        """Where the id's row lies, to be written for an append."""
        place = self.find(producer_id)
        if place is None:
            return None
        _, at, slot = place
        slab = self._own(slot >> SLAB_SHIFT)
        _TIME.pack_into(slab, at + ROW_BYTES, now_ms)
        return slab, at, slot

    def add(self, producer_id: int, now_ms: int) -> Place:
        """A new row, to be written, for an id that is not known."""
        slot = self._append(new_row(producer_id), now_ms)
        self._index.add(producer_id, slot)
        return self._slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * PLACE_BYTES, slot

    def put_back(self, producer_id: int, row: Row) -> None:
        """An earlier row of an id that is known; the time of its last append stays."""
        place = self.find(producer_id)
        assert place is not None, "an id that is not known"
        _, at, slot = place
        self._own(slot >> SLAB_SHIFT)[at : at + ROW_BYTES] = row

    def remove(self, producer_id: int) -> bool:
        """Forget an id, if it is known; whether a slab had to be copied for it."""
        place = self.find(producer_id)
        if place is None:
            return False
        slot = place[2]
        copies = self._is_shared[slot >> SLAB_SHIFT] or self._is_shared[-1]
        self._remove(producer_id, slot)
        return bool(copies)

    def leased_ids(self) -> Iterator[int]:
        """A look at each row's first byte tells: leased ids are those from 2^62 on."""
        for slab in self._slabs:
            for n, first_byte in enumerate(slab[::PLACE_BYTES]):
                if first_byte >= _LEASED_FROM_BYTE:
                    yield id_of(slab, n * PLACE_BYTES)

    def open_transactions(self) -> Iterator[tuple[int, int]]:
        """Each id with a transaction that is open, and its first offset. Quick where there are few among many."""
        for slab in self._slabs:
            signs = slab[TXN_FIRST_OFFSET_AT::PLACE_BYTES]
            if signs.count(_NONE_BYTE) == len(signs):
                continue
            for n, first_byte in enumerate(signs):
                if first_byte != _NONE_BYTE:
                    at = n * PLACE_BYTES
                    yield id_of(slab, at), txn_first_offset_of(slab, at)

    def sweep(self, before_ms: int, leases_expired_below: int, from_slot: int, to_slot: int) -> int:
        """Forget, in these slots, leased ids below that number, and others last appended before ``before_ms``.

        Nobody whose transaction is open (``ProducerStateManager.isProducerExpired``). How many it were.
        """
        swept = 0
        for slot in range(min(to_slot, len(self)) - 1, from_slot - 1, -1):
            slab, at = self._slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * PLACE_BYTES
            producer_id = id_of(slab, at)
            if is_leased(producer_id):
                is_over = producer_id < leases_expired_below
            else:
                is_over = _TIME.unpack_from(slab, at + ROW_BYTES)[0] < before_ms
            if is_over and txn_first_offset_of(slab, at) == NO_TRANSACTION:
                self._remove(producer_id, slot)
                swept += 1
        return swept

    def freeze(self) -> tuple[Row, ...]:
        """All rows as they are now, in slabs that stay as they are."""
        self._is_shared = bytearray(b"\1") * len(self._slabs)
        return tuple(self._slabs)

    def _own(self, number: int) -> bytearray:
        """The slab, to write into."""
        if self._is_shared[number]:
            self._slabs[number] = self._slabs[number][:]
            self._is_shared[number] = 0
        return self._slabs[number]

    def _append(self, row: Row, now_ms: int) -> int:
        slot = len(self)
        number = slot >> SLAB_SHIFT
        if number == len(self._slabs):
            self._slabs.append(bytearray())
            self._is_shared.append(0)
        slab = self._own(number)
        slab += row + _TIME.pack(now_ms)
        if len(slab) == SLAB_BYTES:
            self._slabs[number] = slab[:]  # without the room that it had to grow
        return slot

    def _remove(self, producer_id: int, slot: int) -> None:
        last_slot = len(self) - 1
        self._index.remove(producer_id, slot)
        if slot != last_slot:
            last = self._slabs[-1][-PLACE_BYTES:]
            self._index.move(id_of(last), last_slot, slot)
            at = (slot & _IN_SLAB) * PLACE_BYTES
            self._own(slot >> SLAB_SHIFT)[at : at + PLACE_BYTES] = last
        slab = self._own(last_slot >> SLAB_SHIFT)
        del slab[-PLACE_BYTES:]
        if not slab:
            self._slabs.pop()
            self._is_shared.pop()
        if not self._slabs:
            self._index = SlotIndex(self._slabs)


def _slab_of(rows: memoryview, now_ms: int) -> bytearray:
    """Rows that were all appended to now."""
    time = _TIME.pack(now_ms)
    if len(rows) <= FEW_ROWS * ROW_BYTES:
        return bytearray().join(
            part for at in range(0, len(rows), ROW_BYTES) for part in (rows[at : at + ROW_BYTES], time)
        )
    import numpy as np

    slab = bytearray(len(rows) // ROW_BYTES * PLACE_BYTES)
    table = np.frombuffer(slab, np.uint8).reshape(-1, PLACE_BYTES)
    table[:, :ROW_BYTES] = np.frombuffer(rows, np.uint8).reshape(-1, ROW_BYTES)
    table[:, ROW_BYTES:] = np.frombuffer(time, np.uint8)
    return slab


def rows_in(slabs: Iterable[Row]) -> Iterator[Row]:
    """The rows of some slabs, one after the other."""
    return (slab[at : at + ROW_BYTES] for slab in slabs for at in range(0, len(slab), PLACE_BYTES))


def count_rows(slabs: Sequence[Row]) -> int:
    return sum(map(len, slabs)) // PLACE_BYTES
