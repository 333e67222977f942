"""A segment's two sparse indexes, in Kafka's formats (``OffsetIndex``, ``TimeIndex``).

Offset index: (last offset of a batch - base offset: int32, position of that batch: int32), one after every
``index.interval.bytes`` of log. Time index: (largest timestamp so far: int64, last offset of the batch
that has it - base offset: int32). Both rise strictly, so that the entry for a target is found by halving.

An index only shortens a search: any prefix of one is right for that, also an empty one. It has no checksum, so an
entry is believed only once the batch that it leads to bears it out. But the last entry of a full segment's time index
tells its newest time, by which retention goes: that one must be there.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetEntry(NamedTuple):
    relative_offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp_ms: int
    relative_offset: int


# The searches take entries as plain tuples: naming the fields of each that is looked at would double their cost.


def floor_of_offset(
    entry_at: Callable[[int], tuple[int, int]], count: int, relative_offset: int
) -> tuple[int, int] | None:
    """Where to start looking for ``relative_offset``: the last entry at or below it."""
    n = bisect_right(range(count), relative_offset, key=lambda n: entry_at(n)[0])
    return entry_at(n - 1) if n else None


def floor_of_position(
    entry_at: Callable[[int], tuple[int, int]], count: int, position: int
) -> tuple[int, int] | None:
    """The last entry whose position is at or below ``position``."""
    n = bisect_right(range(count), position, key=lambda n: entry_at(n)[1])
    return entry_at(n - 1) if n else None


def floor_of_time(
    entry_at: Callable[[int], tuple[int, int]], count: int, timestamp_ms: int
) -> tuple[int, int] | None:
    """The last entry before whose offset every record is older than ``timestamp_ms``."""
    n = bisect_left(range(count), timestamp_ms, key=lambda n: entry_at(n)[0])
    return entry_at(n - 1) if n else None


def offsets_rise(entries: Sequence[OffsetEntry], size_bytes: int) -> bool:
    """Whether a loaded offset index can be true: strictly rising, and within a log of ``size_bytes``."""
    return all(a < b and a.position < b.position for a, b in pairwise(entries)) and (
        not entries or (entries[0].position >= 0 and entries[-1].position < size_bytes)
    )


def times_rise(entries: Sequence[TimeEntry]) -> bool:
    """Whether a loaded time index can be true: strictly rising timestamps."""
    return all(a.timestamp_ms < b.timestamp_ms for a, b in pairwise(entries))
