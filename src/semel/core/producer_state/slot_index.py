"""Where a producer id's row lies: a hash table of slot numbers that grows in small steps.

Extendible hashing (Fagin and others, 1979). A directory of shards, each a small open-addressed table; a full
shard is split in two, and nothing else moves. So no insert ever waits for a rehash of everything, which for a
million ids in one table would stop the server for as long as a request may take. A cell holds a slot number
only, 4 bytes; the id is read from the row in that slot.

Ids come from clients. They are hashed as bytes with Python's keyed hash, so that nobody can choose ids that
all fall into one shard. What is stored, and in which slot, does not depend on the key.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Final, TypeAlias

from semel.core.producer_state.row import ROW_BYTES

Place: TypeAlias = tuple[bytearray, int, int]  # a slab, where in it a row begins, and the row's slot

NO_SLOT: Final = -1
SLAB_SHIFT: Final = 12
SLAB_ROWS: Final = 1 << SLAB_SHIFT
PLACE_BYTES: Final = ROW_BYTES + 8  # of a row in a slab: the time of its last append stands behind it
_IN_SLAB: Final = SLAB_ROWS - 1

GONE: Final = -2  # a cell whose id was removed; a search goes on behind it
# A shard has 2^n - 1 cells: a remainder by an odd number has nothing to do with the lowest bits, which choose it.
_CELLS_MIN: Final = 7
CELLS_MAX: Final = 4095  # it is split within a millisecond or two
FEW_ROWS: Final = 256  # that are handled one by one, without numpy
_DEPTH_MAX: Final = 20

_ID: Final = struct.Struct(">q")
key_of = _ID.pack  # what of an id is hashed
_id_at = _ID.unpack_from


class _Shard:
    """The ids whose hashes end in the same ``depth`` bits."""

    __slots__ = ("cells", "depth", "used")

    def __init__(self, depth: int, cells: int) -> None:
        self.depth = depth
        self.cells = array("i", [NO_SLOT]) * cells
        self.used = 0  # cells that are not NO_SLOT

    @property
    def is_full(self) -> bool:
        return 5 * self.used >= 2 * len(self.cells)

    def insert(self, hashed: int, slot: int) -> None:
        """Where there is room, and the id is not in it."""
        cells = self.cells
        at = first_cell(hashed, len(cells))
        while cells[at] != NO_SLOT:
            at += 1
        cells[at] = slot
        self.used += 1


def first_cell(hashed: int, cells: int) -> int:
    """Where a search begins, counted from the end: one that goes over the end goes on at 0, as -1 + 1 is 0."""
    return hashed % cells - cells


class SlotIndex:
    """The slots of the ids in ``slabs``, a list that its owner may change in place.

    ``directory[hashed & mask]`` is the shard of an id, for whoever searches without a call.
    """

    __slots__ = ("_slabs", "directory", "mask")

    def __init__(self, slabs: Sequence[bytearray]) -> None:
        self._slabs = slabs
        self.directory = [_Shard(0, _CELLS_MIN)]
        self.mask = 0

    def find(self, producer_id: int) -> Place | None:
        """Where the id's row lies."""
        hashed = hash(key_of(producer_id))
        cells = self.directory[hashed & self.mask].cells
        count = len(cells)
        at = hashed % count - count  # :func:`first_cell`, whose call would cost as much again
        slabs = self._slabs
        while (slot := cells[at]) != NO_SLOT:
            if slot != GONE:
                slab, row_at = slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * PLACE_BYTES
                if _id_at(slab, row_at)[0] == producer_id:
                    return slab, row_at, slot
            at += 1
        return None

    def add(self, producer_id: int, slot: int) -> None:
        """An id that is not in it."""
        hashed = hash(key_of(producer_id))
        while (shard := self.directory[hashed & self.mask]).is_full:
            self._make_room(shard, hashed)
        shard.insert(hashed, slot)

    def fill(self, count: int) -> None:
        """Add the ids in slots 0 to ``count - 1`` to an empty index, which is quicker for all at once."""
        if count <= FEW_ROWS:
            for slot in range(count):
                self.add(self._id_in(slot), slot)
            return
        import numpy as np  # here: a server that knows few producers starts without it

        columns = PLACE_BYTES // _ID.size  # of which the id is the first
        ids = b"".join(np.frombuffer(slab, ">i8")[::columns].tobytes() for slab in self._slabs)
        hashes = np.fromiter(map(hash, chain.from_iterable(struct.iter_unpack("8s", ids))), np.int64, count)
        wanted_cells = 3 * count  # so that shards are at most a third full
        cells = min(CELLS_MAX, (1 << wanted_cells.bit_length()) - 1)
        depth = max(0, (wanted_cells - 1) // cells).bit_length()
        shards = [_Shard(depth, 0) for _ in range(1 << depth)]
        shard_of = hashes & (len(shards) - 1)
        home = hashes % cells
        # Linear probing of all shards at once: in the order of their homes, each takes its own cell or the one
        # behind its predecessor. Who would have to go round the end of a shard comes after all the others.
        wanted = shard_of * 2 * cells + home
        order = np.argsort(wanted, kind="stable")
        steps = np.arange(count)
        taken = np.maximum.accumulate(wanted[order] - steps) + steps
        at = taken - shard_of[order] * 2 * cells
        fits = at < cells
        table = np.full((len(shards), cells), NO_SLOT, np.int32)
        table[shard_of[order][fits], at[fits]] = order[fits]
        used = np.bincount(shard_of[order][fits], minlength=len(shards))
        for n, shard in enumerate(shards):
            shard.cells = array("i", table[n].tobytes())
            shard.used = int(used[n])
        self.directory, self.mask = shards, len(shards) - 1
        for slot in order[~fits].tolist():
            self.add(self._id_in(slot), slot)

    def remove(self, producer_id: int, slot: int) -> None:
        self._replace(producer_id, slot, GONE)

    def move(self, producer_id: int, slot: int, to_slot: int) -> None:
        self._replace(producer_id, slot, to_slot)

    def _replace(self, producer_id: int, slot: int, by: int) -> None:
        hashed = hash(key_of(producer_id))
        cells = self.directory[hashed & self.mask].cells
        at = first_cell(hashed, len(cells))
        while cells[at] != slot:
            at += 1
        cells[at] = by

    def _make_room(self, shard: _Shard, hashed: int) -> None:
        """Sweep a full shard, make it larger or split it: by how much of it is alive."""
        slots = [slot for slot in shard.cells if slot >= 0]
        cells = len(shard.cells)
        if 5 * len(slots) < cells:
            self._refill(slots, shard, shard, cells)
        elif cells < CELLS_MAX or shard.depth == _DEPTH_MAX:
            self._refill(slots, shard, shard, 2 * cells + 1)
        else:
            self._split(shard, slots, hashed)

    def _split(self, shard: _Shard, slots: list[int], hashed: int) -> None:
        bit = 1 << shard.depth
        if shard.depth == self.mask.bit_length():
            self.directory += self.directory
            self.mask = len(self.directory) - 1
        shard.depth += 1
        other = _Shard(shard.depth, CELLS_MAX)
        for n in range(hashed & (bit - 1) | bit, len(self.directory), 2 * bit):
            self.directory[n] = other
        self._refill(slots, shard, other, CELLS_MAX)

    def _refill(self, slots: list[int], shard: _Shard, other: _Shard, cells: int) -> None:
        """Put ``slots`` where they belong now."""
        shard.cells = array("i", [NO_SLOT]) * cells
        shard.used = 0
        bit = 1 << shard.depth - 1 if other is not shard else 0
        for slot in slots:
            hashed = hash(key_of(self._id_in(slot)))
            (other if hashed & bit else shard).insert(hashed, slot)

    def _id_in(self, slot: int) -> int:
        (producer_id,) = _id_at(self._slabs[slot >> SLAB_SHIFT], (slot & _IN_SLAB) * PLACE_BYTES)
        return int(producer_id)
