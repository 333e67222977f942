"""Which dead letters a topic has, in bounded memory, for whoever must not write one twice.

A letter's key begins with its place: topic, partition and offset of the batch. Whoever reads a partition comes by its
places in order. So of each partition two windows of offsets are kept, each with all keys of the topic within it: one
up to the newest, and one from where the reader is. What lies in neither has to be looked for in the topic again,
which moves the second window there: a pass through the topic for every :data:`WINDOW` letters of old, and none for
new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

WINDOW: Final = 10_000  # letters of one partition, in one of its windows; up to twice as many for a moment
PARTITIONS_MAX: Final = 10_000  # of which the newest letters are kept without being asked for

_Place: TypeAlias = bytes  # topic and partition


@dataclass(slots=True)
class _Window:
    """All keys from offset ``begin`` to below ``end``; without an end: all that come, too."""

    begin: int
    end: int | None
    keys: dict[int, set[bytes]] = field(default_factory=dict)
    count: int = 0

    def covers(self, offset: int) -> bool:
        return self.begin <= offset and (self.end is None or offset < self.end)

    def has(self, offset: int, key: bytes) -> bool:
        return key in self.keys.get(offset, ())

    def add(self, offset: int, key: bytes) -> None:
        if not self.covers(offset) or self.has(offset, key):
            return
        self.keys.setdefault(offset, set()).add(key)
        self.count += 1
        if self.count > 2 * WINDOW and len(self.keys) > 1:
            self._shrink()

    def _shrink(self) -> None:
        """Leave out the lowest offsets, or of a window that has an end the highest."""
        offsets = sorted(self.keys, reverse=self.end is not None)
        for offset in offsets[:-1]:
            if self.count <= WINDOW:
                break
            self.count -= len(self.keys.pop(offset))
            if self.end is None:
                self.begin = offset + 1
            else:
                self.end = offset


class KnownLetters:
    """Of one topic, which is read from its beginning on: :meth:`add` is told of every key, in the topic's order."""

    def __init__(self) -> None:
        self._newest: dict[_Place, _Window] = {}
        self._ahead: dict[_Place, _Window] = {}
        self._has_all_partitions = True

    def add(self, key: bytes) -> None:
        """One that the topic has; a key that is none of a letter is passed over."""
        found = _place_of(key)
        if found is None:
            return
        place, offset = found
        newest = self._newest.get(place)
        if newest is None:
            if len(self._newest) >= PARTITIONS_MAX:
                self._has_all_partitions = False
            else:
                newest = self._newest[place] = _Window(0, None)
        for window in (newest, self._ahead.get(place)):
            if window is not None:
                window.add(offset, key)

    def has(self, key: bytes) -> bool | None:
        """Whether the topic has it; None: it has to be looked for, see :meth:`look_ahead`."""
        found = _place_of(key)
        assert found is not None, f"{key!r} is the key of no letter"
        place, offset = found
        windows = (self._newest.get(place), self._ahead.get(place))
        for window in windows:
            if window is not None and window.covers(offset):
                return window.has(offset, key)
        return False if windows == (None, None) and self._has_all_partitions else None

    def look_ahead(self, key: bytes, keys: Iterable[bytes]) -> None:
        """From now on :meth:`has` knows of ``key`` and those behind it; ``keys`` are all that the topic has."""
        wanted = _place_of(key)
        assert wanted is not None, f"{key!r} is the key of no letter"
        place, begin = wanted
        ahead = self._ahead[place] = _Window(begin, 2**63)
        for each in keys:
            found = _place_of(each)
            if found is not None and found[0] == place:
                ahead.add(found[1], each)


def _place_of(key: bytes) -> tuple[_Place, int] | None:
    """The partition, and the offset in it."""
    parts = key.rsplit(b"/", 2)
    if len(parts) != 3 or not parts[1].isdigit() or len(parts[1]) > 19:
        return None
    return parts[0], int(parts[1])
