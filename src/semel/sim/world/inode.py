"""One file on a disk that keeps only what was synced: the page cache over durable 512-byte sectors.

Invariants: what ``fdatasync`` reported as done survives every crash; of a sector written since, a power cut
keeps the new content, the old, a mix torn at any byte, or (where there was none) zeros, each sector on its
own; the size is the old one or one on the way to the new. A sync that failed leaves its pages *clean*: a
later sync succeeds without having written them (Rebello et al., ATC 2020), so they are lost at the next
power cut unless they are written again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.sim.world.faults import Counts, Fault

SECTOR_BYTES: Final = 512


class Inode:
    """A file's content as processes see it, and the images of sectors as the platter has them."""

    __slots__ = ("_before", "_durable_size", "_forgotten", "cached")

    def __init__(self) -> None:
        self.cached = bytearray()
        self._before: dict[int, bytes] = {}  # dirty sectors: what the platter has
        self._forgotten: dict[int, bytes] = {}  # clean after a failed sync, but not on the platter
        self._durable_size = 0

    @staticmethod
    def of(data: bytes) -> Inode:
        """One of which all is durable."""
        node = Inode()
        node.cached += data
        node._settle()
        return node

    @property
    def is_clean(self) -> bool:
        return not self._before and self._durable_size == len(self.cached)

    def write(self, data: memoryview, position: int) -> None:
        end = position + len(data)
        cached = self.cached
        if position > len(cached):
            self._remember(len(cached), position)
            cached.extend(bytes(position - len(cached)))
        self._remember(position, end)
        cached[position:end] = data

    def truncate(self, size_bytes: int) -> None:
        if size_bytes > len(self.cached):
            self.write(memoryview(bytes(size_bytes - len(self.cached))), len(self.cached))
            return
        self._remember(size_bytes, len(self.cached))
        del self.cached[size_bytes:]

    def _remember(self, start: int, end: int) -> None:
        for sector in range(start // SECTOR_BYTES, (end + SECTOR_BYTES - 1) // SECTOR_BYTES):
            if sector in self._before:
                continue
            image = self._forgotten.pop(sector, None)
            if image is None:
                image = bytes(self.cached[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
            self._before[sector] = image

    def sync(self, meanwhile: Callable[[], None], *, fails: bool) -> None:
        """Make durable what was written so far; ``meanwhile`` is what other threads do during the call.

        ``OSError`` is the caller's to raise when ``fails``.
        """
        syncing, self._before = self._before, {}
        size_bytes = len(self.cached)
        try:
            meanwhile()
        except BaseException:
            self._before = {**self._before, **syncing}
            raise
        if not fails:
            self._durable_size = size_bytes
            return
        for sector, image in syncing.items():
            if sector in self._before:
                self._before[sector] = image
            else:
                self._forgotten.setdefault(sector, image)

    def power_cut(self, random: Random, counts: Counts) -> None:
        """What the next process finds; afterwards all of it is durable."""
        if not self._before and not self._forgotten and self._durable_size == len(self.cached):
            return
        cached, size_bytes = self.cached, self._size_after(random, counts)
        content = bytearray(size_bytes)
        kept_bytes = min(size_bytes, len(cached))
        content[:kept_bytes] = cached[:kept_bytes]
        keep = random.choice((0.0, 0.3, 0.7, 1.0))
        unwritten = {**self._forgotten, **self._before}
        for sector in sorted(unwritten):
            start = sector * SECTOR_BYTES
            if start >= size_bytes:
                continue
            end = min(start + SECTOR_BYTES, size_bytes)
            new = bytes(content[start:end])
            old = unwritten[sector][: end - start].ljust(end - start, b"\0")
            if end > len(cached):  # the truncation that removed this did not happen
                content[start:end] = old
                continue
            if sector in self._before and random.random() < keep:
                counts.bit(Fault.SECTORS_KEPT)
                continue
            if new == old:
                continue
            if random.random() < 0.3:
                tear = random.randrange(end - start)
                counts.bit(Fault.SECTORS_TORN)
                content[start:end] = new[:tear] + old[tear:]
                continue
            counts.bit(Fault.SECTORS_LOST if unwritten[sector] else Fault.SECTORS_ZEROED)
            content[start:end] = old
        self.cached = content
        self._settle()

    def _size_after(self, random: Random, counts: Counts) -> int:
        durable, cached = self._durable_size, len(self.cached)
        if durable == cached:
            return durable
        if cached < durable:  # an unsynced truncation happened or did not
            return random.choice((durable, cached))
        size_bytes = random.choice((durable, cached, random.randint(durable, cached)))
        if size_bytes < cached:
            counts.bit(Fault.TAIL_LOST)
        return size_bytes

    def _settle(self) -> None:
        self._before.clear()
        self._forgotten.clear()
        self._durable_size = len(self.cached)
