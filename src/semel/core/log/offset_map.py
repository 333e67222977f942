"""The newest offset of each key, in so many bytes and not one more (Kafka's ``SkimpyOffsetMap``).

A key is known by a hash of 16 bytes: 24 bytes a key, in a table that is probed line by line, for many keys at once.

Invariant: of a key that was put in, the largest offset is found; one that was not is not found. (Two keys with one
hash would be one key. :class:`semel.record.keys.KeyHash` says how seldom that is.)
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from semel.record.index import Int64s
from semel.record.keys import Hashes

KEY_BYTES: Final = 24
_LOAD_MAX: Final = 0.9  # Kafka's ``log.cleaner.io.buffer.load.factor``
_NONE: Final = -1
_ROOM_PARTS: Final = 64  # with less than this part of its room left it counts as full


class OffsetMap:
    """``keys_max``: as many keys as there may be at most; a map that could never be filled is made smaller."""

    def __init__(self, size_bytes: int, keys_max: int) -> None:
        slots = max(2, min(size_bytes // KEY_BYTES, int(keys_max / _LOAD_MAX) + 2))
        self._slots: Final = np.uint64(slots)
        self._high = np.zeros(slots, np.uint64)
        self._low = np.zeros(slots, np.uint64)
        self._offset = np.full(slots, _NONE, np.int64)
        self._keys_max: Final = max(1, int(slots * _LOAD_MAX))
        self._keys = 0

    def __len__(self) -> int:
        return self._keys

    @property
    def is_full(self) -> bool:
        return self._keys_max - self._keys <= self._keys_max // _ROOM_PARTS

    def put(self, hashes: Hashes, offsets: Int64s) -> int:
        """Take in as many as there is room for, from the first on; how many. ``offsets`` are all different."""
        done = 0
        while done < len(offsets) and not self.is_full:
            end = done + self._keys_max - self._keys
            self._put(hashes.high[done:end], hashes.low[done:end], offsets[done:end])
            done = min(end, len(offsets))
        return done

    def newest(self, hashes: Hashes) -> Int64s:
        """The offset of each, -1 for those that are not in it."""
        found = np.full(len(hashes.high), _NONE, np.int64)
        left = np.arange(len(found))
        slot = (hashes.high % self._slots).astype(np.int64)
        while len(left):
            offset = self._offset[slot]
            is_it = (self._high[slot] == hashes.high[left]) & (self._low[slot] == hashes.low[left])
            is_taken = offset != _NONE
            is_it &= is_taken
            found[left[is_it]] = offset[is_it]
            goes_on = is_taken & ~is_it
            left, slot = left[goes_on], self._after(slot[goes_on])
        return found

    def _put(self, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], offsets: Int64s) -> None:
        """Each takes its slot, or the next one. Of several that want the same free slot the newest gets it."""
        slot = (high % self._slots).astype(np.int64)
        while len(offsets):
            is_free = self._offset[slot] == _NONE
            np.maximum.at(self._offset, slot[is_free], offsets[is_free])
            has_won = is_free & (self._offset[slot] == offsets)
            self._high[slot[has_won]] = high[has_won]
            self._low[slot[has_won]] = low[has_won]
            self._keys += int(np.count_nonzero(has_won))
            is_it = ~has_won & (self._high[slot] == high) & (self._low[slot] == low)
            np.maximum.at(self._offset, slot[is_it], offsets[is_it])
            goes_on = ~(has_won | is_it)
            high, low, offsets = high[goes_on], low[goes_on], offsets[goes_on]
            slot = self._after(slot[goes_on])

    def _after(self, slot: Int64s) -> Int64s:
        after = slot + 1
        after[after == len(self._offset)] = 0
        return after
